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


def test_a_text_with_a_line_break_of_its_own_takes_no_other_with_it() -> None:
    broken = (STEP_CODE, 1.0, 1.0, b"{}", '{"observation":\n1}')
    content = encoded_entries(flat(entry(STEP_CODE, 0, "a"), broken), 0.0, ())
    assert from_json(lines_in(content)[0])[5] == {"observation": "a"}
