"""Verdicts in answers: what is read, and what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.rubrics.verdicts import VerdictError, json_verdict

values = st.dictionaries(st.text(), st.recursive(st.integers() | st.text() | st.none(), st.lists), max_size=4)


@pytest.mark.level("socket")
@given(values, st.text(alphabet="abc .\n`"), st.text(alphabet="abc .\n`"))
def test_text_around_a_verdict_does_not_matter(verdict: dict[str, Any], before: str, after: str) -> None:
    assert json_verdict(f"{before}{json.dumps(verdict)}{after}") == verdict


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("", "got none"),
        ("I can't say.", "got none"),
        ('{"score": 1} or rather {"score": 0}', "got 2"),
        ('{"score": 1, "score": 0}', "got 'score' twice"),
        ('{"score": 1', "got none"),
        ("[1, 2]", "got none"),
        ("{" * 5000, "got none"),
    ],
)
def test_what_is_no_verdict(answer: str, message: str) -> None:
    with pytest.raises(VerdictError, match=message):
        json_verdict(answer)


# Of 100 KB each. A reader that tries each beginning anew takes seconds; a test of this level has 0.3 s.
HOSTILE = {
    "braces": ("{" * 100_000, "got none"),
    "objects in objects": ('{"a":' * 20_000, "nested too deeply"),
    "lists in objects": ('{"a":[' * 15_000, "nested too deeply"),
    "objects that break off": (('{"a":' * 900 + "x") * 22, "too many beginnings"),
    "long objects that break off": (('{"a":[1' + ",1" * 1000 + ",") * 50, "too many beginnings"),
    "quotes": ('{"' * 50_000, "too many beginnings"),
    "escaped quotes": ('{"\\"' * 25_000, "too many beginnings"),
    "numbers of thousands of digits": (('{"a":' + "9" * 5000 + "}") * 20, "got none"),
    "verdicts": ('{"a":1}' * 15_000, "got 15000"),
}


@pytest.mark.parametrize(("answer", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_answer_takes_no_time_beyond_its_length(answer: str, message: str) -> None:
    with pytest.raises(VerdictError, match=message):
        json_verdict(answer)


def test_formulas_around_a_verdict_do_not_matter() -> None:
    assert json_verdict(r"So \frac{a}{b} holds for {x | x > 0}. " * 2_000 + '{ "score": 1 }') == {"score": 1}
