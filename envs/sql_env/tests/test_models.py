"""What a player may send."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sql_env import QueryAction, SchemaAction, SqlAction, SqlObservation, SubmitAction, SubmitQueryAction

ACTION: TypeAdapter[Any] = TypeAdapter(SqlAction)


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ({"type": "query", "sql": "SELECT 1"}, QueryAction(sql="SELECT 1")),
        ({"type": "schema"}, SchemaAction()),
        ({"type": "schema", "table": "t"}, SchemaAction(table="t")),
        ({"type": "submit", "answer": 5}, SubmitAction(answer=5)),
        ({"type": "submit", "answer": "5"}, SubmitAction(answer="5")),
        ({"type": "submit", "answer": [["a", 1.5], ["b", None]]}, SubmitAction(answer=[["a", 1.5], ["b", None]])),
        ({"type": "submit_query", "sql": "SELECT 1"}, SubmitQueryAction(sql="SELECT 1")),
    ],
)
def test_the_type_tells_actions_apart_and_values_stay_as_they_are(fields: dict[str, Any], action: object) -> None:
    read = ACTION.validate_python(fields)
    assert read == action
    assert repr(read) == repr(action)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"sql": "SELECT 1"},
        {"type": "reset"},
        {"type": "query"},
        {"type": "query", "sql": ""},
        {"type": "query", "sql": "x" * 10_001},
        {"type": "query", "sql": "SELECT 1", "answer": 5},
        {"type": "submit"},
        {"type": "submit", "answer": None},
        {"type": "submit", "answer": {"a": 1}},
        {"type": "submit", "answer": [[[1]]]},
        {"type": "submit", "answer": [1] * 1_001},
        {"type": "submit", "answer": "x" * 100_001},
    ],
)
def test_anything_else_is_no_action(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ACTION.validate_python(fields)


def test_an_observation_has_no_negative_number_of_queries() -> None:
    with pytest.raises(ValidationError):
        SqlObservation(question="a", queries_left=-1)
