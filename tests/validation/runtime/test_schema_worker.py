"""A server's schema can neither hang the check nor lead it elsewhere."""

import json
from typing import Any

import pytest

from openenv.validation.runtime.schema_worker import NON_LOCAL, OUT_OF_TIME, MeasuredObservation, schema_problems

pytestmark = pytest.mark.level("process")


def problems(schema: Any, *observations: dict[str, Any], reset_schema: Any = None) -> list[str]:
    """Check observations of steps."""
    observed = [
        MeasuredObservation(number, False, each, {"reward": 1.0, "done": False})
        for number, each in enumerate(observations)
    ]
    return schema_problems(json.dumps(schema), None if reset_schema is None else json.dumps(reset_schema), observed)


def test_reward_and_done_may_be_fields_of_the_schema() -> None:
    closed = {"type": "object", "additionalProperties": False, "properties": {"total": {}}}
    assert problems(closed, {"total": 1}) == []
    assert problems({**closed, "properties": {"total": {}, "done": {}, "reward": {}}, "required": ["done"]}, {}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"properties": {"total": {"$ref": "file:///etc/passwd"}}},
        {"$id": "http://example.org/a", "anyOf": [{"$dynamicRef": "other"}]},
        {"$ref": "#/$defs/missing"},
    ],
)
def test_no_reference_out_of_the_schema_is_followed(schema: Any) -> None:
    assert problems(schema, {"total": 1}) == [NON_LOCAL]


def test_property_may_be_called_like_a_reference() -> None:
    assert problems({"properties": {"$ref": {"type": "string"}}}, {"$ref": "elsewhere"}) == []


def test_invalid_schema_is_a_problem() -> None:
    (line,) = problems({"type": "nonsense"}, {"total": 1})
    assert line.startswith("observation schema is no JSON Schema: ")


def test_schema_that_takes_for_ever_is_ended() -> None:
    schema = {"properties": {"text": {"pattern": "^(a+)+$"}}}
    assert problems(schema, {"text": "a" * 40 + "b"}) == [OUT_OF_TIME]


def test_problems_are_bounded() -> None:
    lines = problems({"required": ["missing"]}, *[{"filler": "x" * 1000}] * 30)
    assert len(lines) == 20
    assert max(map(len, lines)) < 400
