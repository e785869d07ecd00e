"""Observations as JSON."""

import cProfile
import logging
import math
from datetime import timedelta
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, Field, computed_field, field_serializer

from openenv import NDArray, Observation, State
from openenv.core.exceptions import EnvironmentFailedError
from openenv.core.wire.answers import (
    is_long,
    observation_json,
    outcome_json,
    state_json,
    written_observation,
    written_outcome,
)
from openenv.core.wire.arrays import ArrayJson, ArrayWriter
from openenv.core.wire.results import Outcome, outcome_of

SEVERAL = 40  # not every observation is searched for NaN


class Unvisited(np.ndarray[Any, Any]):
    """An array whose numbers must not be visited one by one, which takes seconds for a screen."""

    def tolist(self) -> Any:
        raise AssertionError("visited")


class Screen(Observation):
    pixels: Annotated[np.ndarray[Any, Any], NDArray("uint8", (None, None, 3), picture=True)]
    depth: Annotated[np.ndarray[Any, Any], NDArray("float32", (None,))]
    note: str | None = None


class Anything(Observation):
    value: Any = None


LONG = {
    "a text": "x" * 2_000_000,
    "bytes": b"x" * 2_000_000,
    "numbers": [1] * 500_000,
    "texts": ["x" * 300_000] * 9,
    "a text deep within": {"a": [{"b": {"c": "x" * 2_000_000}}]},
    "nested lists": [[[1] * 3] * 1000] * 1000,
    "a mapping": {str(number): "x" * 2000 for number in range(1000)},
    "models": [Observation(metadata={"note": "x" * 1000})] * 2000,
    "an array": np.zeros((1000, 1000)),
}


@pytest.mark.parametrize("value", list(LONG.values()), ids=list(LONG))
def test_what_is_long_is_known_before_it_is_written(value: Any) -> None:
    assert is_long(Anything(value=value))
    assert is_long(Anything(value={"beside": [None, value]}))
    assert is_long({"state": value})


@pytest.mark.parametrize(
    "value", [None, 7, "x" * 1000, [], {}, [[]] * 100, {"a": [1, 2.0, {"b": None}]}, ["x"] * 100, np.zeros(9), object()]
)
def test_what_is_short_too(value: Any) -> None:
    assert not is_long(Anything(value=value))


class Depth(Observation):
    depth: Annotated[np.ndarray[Any, Any], NDArray("float32", (None,))]


def test_large_arrays_are_not_searched_number_by_number() -> None:
    screen = np.zeros((720, 1280, 3), np.uint8).view(Unvisited)
    shown = Screen(pixels=screen, depth=np.ones(4, np.float32).view(Unvisited))
    for _ in range(SEVERAL):
        assert isinstance(written_observation(shown, ArrayWriter()), ArrayJson)


def test_nan_in_an_array_is_not_sent_as_null_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "openenv")
    for _ in range(SEVERAL):
        assert '"depth":[1.0,null]' in observation_json(Depth(depth=np.array([1, np.nan], np.float32)))
    assert [record.getMessage().partition(" is")[0] for record in caplog.records] == ["Depth.depth.1"]


class Pixels(Observation):
    pixels: list[float | int]
    note: str | None = None


@pytest.mark.parametrize("number", [7, 0.5])
def test_long_lists_of_numbers_are_not_searched_number_by_number(number: float) -> None:
    shown = Pixels(pixels=[number] * 50_000)
    profile = cProfile.Profile()
    for _ in range(SEVERAL):
        profile.runcall(observation_json, shown)
    assert sum(entry.callcount for entry in profile.getstats()) < 10_000


@pytest.mark.parametrize("numbers", [[0.5, math.inf], [1, 2, math.nan], [[1], [0.5, math.nan]]])
def test_nan_in_a_list_is_not_sent_as_null_in_silence(numbers: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    class Numbers(Observation):
        numbers: list[Any]

    caplog.set_level(logging.WARNING, "openenv")
    for _ in range(SEVERAL):
        observation_json(Numbers(numbers=numbers))
    assert len(caplog.records) == 1
    assert "Numbers.numbers.1" in caplog.text or "Numbers.numbers.2" in caplog.text


class Word(Observation):
    text: str = ""

    @computed_field
    def length(self) -> int:
        return len(self.text)


class Hidden(Word):
    @field_serializer("metadata")
    def _nothing(self, _value: Any) -> None:
        return None


class Renamed(Word):
    metadata: dict[str, Any] = Field(default_factory=dict, serialization_alias="info")


class Bare(Observation):
    pass


CLASSES = (Observation, Bare, Word, Hidden, Renamed, Depth)


def scored(observation_class: type[Observation], metadata: dict[str, Any], text: str = "") -> Outcome:
    """Return the outcome of a step with a rubric: its metadata are those of the observation, and only numbers."""
    fields = {"text": text} if issubclass(observation_class, Word) else {}
    if observation_class is Depth:
        fields["depth"] = np.ones(2, np.float32)  # type: ignore[assignment]
    observation = observation_class(reward=0.5, metadata=metadata, **fields)
    return Outcome(observation, 0.5, False, observation.metadata, has_plain_metadata=True)


@given(
    st.sampled_from(CLASSES), st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)), st.text()
)
def test_metadata_that_are_written_once_read_as_if_written_twice(
    observation_class: type[Observation], scores: dict[str, float], text: str
) -> None:
    outcome = scored(observation_class, {"reward_signals": scores, "reward_weights": scores}, text)
    twice = Outcome(outcome.observation, 0.5, False, outcome.metadata)
    assert outcome_json(outcome) == outcome_json(twice)
    assert written_outcome(outcome, ArrayWriter()) == written_outcome(twice, ArrayWriter())


def test_the_json_of_a_scored_step() -> None:
    metadata = {"reward_signals": {"short": 1.0, "\u00e9": 1e-7}, "reward_weights": {"short": 0.75, "\u00e9": 0.25}}
    written = '{"reward_signals":{"short":1.0,"\u00e9":1e-7},"reward_weights":{"short":0.75,"\u00e9":0.25}}'
    observation = f'{{"metadata":{written},"text":"hi","length":2}}'
    expected = f'{{"observation":{observation},"reward":0.5,"done":false,"metadata":{written}}}'
    assert outcome_json(scored(Word, metadata, "hi")) == expected


class SelfDumped(Observation):
    """Leaves out what a client must not see and what is empty, as code for the public package does it."""

    answer: str
    hint: str | None = None

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        kwargs.setdefault("exclude_none", True)
        fields = super().model_dump(**kwargs)
        del fields["answer"]
        return fields


class SelfDumpedState(State):
    answer: str

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        return {"steps": self.step_count}


def test_an_overridden_model_dump_writes_observations_and_states() -> None:
    shown = SelfDumped(answer="42", reward=1.0, metadata={"turn": 1})
    assert (
        outcome_json(outcome_of(shown))
        == '{"observation":{"metadata":{"turn":1}},"reward":1.0,"done":false,"metadata":{"turn":1}}'
    )
    assert written_outcome(outcome_of(SelfDumped(answer="42", hint="even")), ArrayWriter()) == (
        '{"observation":{"metadata":{},"hint":"even"},"reward":null,"done":false}'
    )
    assert state_json(SelfDumpedState(answer="42", step_count=3)) == '{"steps":3}'


class FailingDump(Observation):
    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        fields = super().model_dump(**kwargs)
        del fields["answer"]
        return fields


class FailingDumpState(State):
    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        return {"steps": self.taken}  # type: ignore[attr-defined]


def test_an_overridden_model_dump_that_raises_is_an_error_of_the_environment() -> None:
    with pytest.raises(EnvironmentFailedError, match="JSON: FailingDump: its model_dump raised KeyError: 'answer'"):
        outcome_json(outcome_of(FailingDump()))
    with pytest.raises(EnvironmentFailedError, match="JSON: FailingDumpState: its model_dump raised AttributeError"):
        state_json(FailingDumpState())


class Stored(Observation):
    model_config = ConfigDict(ser_json_bytes="base64", ser_json_timedelta="float")

    image: bytes
    took: timedelta

    def model_dump(self, *, exclude: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return super().model_dump(exclude=exclude)


def test_an_overridden_model_dump_has_its_bytes_and_durations_as_its_class_says() -> None:
    written = observation_json(Stored(image=b"\xff\xfe", took=timedelta(seconds=90)))
    assert written == '{"metadata":{},"image":"__4=","took":90.0}'
