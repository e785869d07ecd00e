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
