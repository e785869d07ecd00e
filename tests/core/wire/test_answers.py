"""Observations as JSON."""

import logging
from typing import Annotated, Any

import numpy as np
import pytest

from openenv import NDArray, Observation
from openenv.core.wire.answers import observation_json, written_observation
from openenv.core.wire.arrays import ArrayJson, ArrayWriter

SEVERAL = 40  # not every observation is searched for NaN


class Unvisited(np.ndarray[Any, Any]):
    """An array whose numbers must not be visited one by one, which takes seconds for a screen."""

    def tolist(self) -> Any:
        raise AssertionError("visited")


class Screen(Observation):
    pixels: Annotated[np.ndarray[Any, Any], NDArray("uint8", (None, None, 3), picture=True)]
    depth: Annotated[np.ndarray[Any, Any], NDArray("float32", (None,))]
    note: str | None = None


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
