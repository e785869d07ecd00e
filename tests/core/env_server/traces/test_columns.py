"""Entries in columns are the same as in lines, and what can't be columns are lines."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from openenv.core.env_server.traces.columns import (
    FAILED_RESET_CODE,
    FAILED_STEP_CODE,
    RESET_CODE,
    STEP_CODE,
    encoded_entries,
    lines_in,
)

OFFSET = 1.7e9
KINDS = {
    RESET_CODE: ["reset", 0],
    STEP_CODE: ["step", 0],
    FAILED_RESET_CODE: ["reset", 1],
    FAILED_STEP_CODE: ["step", 1],
}


def entry(code: str, number: int, text: str) -> tuple[Any, ...]:
    answer = to_json({"observation": text}).decode()
    return code, 100.5 + number, 100.25 + number, to_json({"say": text}), answer


def flat(*entries: tuple[Any, ...]) -> list[Any]:
    return [value for each in entries for value in each]


def expected(code: str, number: int, text: str) -> list[Any]:
    kind, failed = KINDS[code]
    at = round((OFFSET + 100.5 + number) * 1e6)
    return [kind, at, 250_000, failed, {"say": text}, {"observation": text}]


@given(st.lists(st.tuples(st.sampled_from(list(KINDS)), st.text(st.characters(codec="utf-8"))), min_size=1))
def test_columns_come_back_as_lines(played: list[tuple[str, str]]) -> None:
    content = encoded_entries(flat(*(entry(code, n, text) for n, (code, text) in enumerate(played))), OFFSET, ())
    assert content[:1] < b" "
    assert [from_json(line) for line in lines_in(content)] == [
        expected(code, number, text) for number, (code, text) in enumerate(played)
    ]


@pytest.mark.parametrize(
    ("text", "secrets", "leave_out"),
    [
        ("the secret-word", ["secret-word"], []),
        ("http://me:pass@host", [], []),
        ("plain", [], ["action.say"]),
    ],
)
def test_entries_with_something_to_leave_out_are_lines_without_it(
    text: str, secrets: list[str], leave_out: list[str]
) -> None:
    entries = flat(entry(RESET_CODE, 0, "ready"), entry(STEP_CODE, 1, text))
    content = encoded_entries(entries, OFFSET, secrets, leave_out)
    first, second = map(from_json, lines_in(content))
    assert content.startswith(b"[")
    assert first[:4] == expected(RESET_CODE, 0, "ready")[:4]
    assert second[:4] == expected(STEP_CODE, 1, text)[:4]
    assert second[4] != {"say": text}


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("leave_out", [[], ["action.say"]])
def test_line_breaks_in_json_of_an_environment_s_own(end: str, leave_out: list[str]) -> None:
    broken = (STEP_CODE, 1.0, 1.0, f'{{{end}"do":{end}2}}'.encode(), f'{{"observation":{end}1}}')
    content = encoded_entries(flat(entry(STEP_CODE, 0, "a"), broken, entry(STEP_CODE, 2, "c")), 0.0, (), leave_out)
    before, at, after = map(from_json, lines_in(content))
    assert at[4:6] == [{"do": 2}, {"observation": 1}]
    assert [before[5], after[5]] == [{"observation": "a"}, {"observation": "c"}]


def test_an_entry_of_an_unknown_kind_is_an_error_of_its_value() -> None:
    content = encoded_entries(flat(entry(STEP_CODE, 0, "a")), 0.0, ())
    with pytest.raises(ValueError, match=r"an entry is of an unknown kind"):
        lines_in(content.replace(STEP_CODE.encode(), b"\x07", 1))
