"""Snapshots: how they are written, and that nobody waits long for it."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.exceptions import EnvironmentFailedError

_KEYS = st.text() | st.integers() | st.booleans() | st.none()
_SMALL = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
# Of more elements than a piece has, and such in each other; not to any depth, where they would be millions.
_LARGE = st.lists(_SMALL, max_size=2).map(lambda some: some * 70) | st.dictionaries(
    st.integers(), _SMALL, min_size=2, max_size=2
).map(lambda some: {key + number: value for key, value in some.items() for number in range(70)})
_VALUES = (
    _SMALL
    | _LARGE
    | st.lists(_LARGE, max_size=1).map(lambda some: some * 70)
    | st.lists(_SMALL | _LARGE, max_size=4)
    | st.tuples(_SMALL, _LARGE)
    | st.dictionaries(_KEYS, _SMALL | _LARGE, max_size=4)
)


@pytest.mark.level("socket")
@settings(max_examples=100)
@given(value=_VALUES)
def test_it_is_what_json_writes(value: Any) -> None:
    written = json.dumps(value)
    assert Snapshot.of(value).written == written
    assert asyncio.run(Snapshot.of_in_turns(value)).written == written


@pytest.mark.parametrize("value", [{1, 2}, [1, {2: {3, 4}}], {(1, 2): 3}, object(), [object()] * 100])
async def test_what_json_can_t_hold_is_refused(value: Any) -> None:
    refusal = "to return bytes or what JSON can hold, got"
    with pytest.raises(EnvironmentFailedError, match=refusal):
        Snapshot.of(value)
    with pytest.raises(EnvironmentFailedError, match=refusal):
        await Snapshot.of_in_turns(value)


def test_what_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append({"itself": value})
    with pytest.raises(EnvironmentFailedError, match="Circular reference"):
        Snapshot.of(value)


@pytest.mark.level("files")
async def test_others_get_their_turn_while_a_large_one_is_written() -> None:
    turns: list[None] = []

    async def count_turns() -> None:
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    value = {"rows": [[float(number) for number in range(1000)] for _ in range(1000)]}
    assert (await Snapshot.of_in_turns(value)).value() == value
    counting.cancel()
    assert len(turns) >= 5
