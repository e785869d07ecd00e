"""Two episodes, entry by entry."""

from typing import Any

import pytest

from openenv.traces import Entry, differences


def entry(request: Any = 1, *, failed: bool = False, **answer: Any) -> Entry:
    return Entry("step", 0.0, 0.0, request, answer, failed)


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        (entry(reward=1, done=False), entry(reward=1.0, done=False), ()),
        (entry(reward=1), entry(reward=True), ("reward",)),
        (entry(done=True), entry(done=False), ("done",)),
        (entry(1), entry(2), ("request",)),
        (entry(observation={"a": [1, {"b": 2}]}), entry(observation={"a": [1, {"b": 2.0}]}), ()),
        (entry(observation={"a": [1]}), entry(observation={"a": [1, 2]}), ("observation",)),
        (entry(observation={"a": 0}), entry(observation={"a": False}), ("observation",)),
        (entry(failed=True, code="X"), entry(failed=True, code="X", message="other"), ()),
        (entry(failed=True, code="X"), entry(failed=True, code="Y"), ("error",)),
        (entry(failed=True, code="X"), entry(reward=1), ("error",)),
    ],
)
def test_what_differs_is_named(one: Entry, other: Entry, parts: tuple[str, ...]) -> None:
    (found,) = differences([one], [other])
    assert (found.parts, found.same) == (parts, not parts)


def test_the_name_of_an_episode_is_no_difference() -> None:
    resets = [
        Entry("reset", 0.0, 0.0, {"seed": seed, "episode_id": f"e{at}"}, {}, False) for at, seed in enumerate((1, 1, 2))
    ]
    same, other = (next(iter(differences(resets[:1], [reset]))) for reset in resets[1:])
    assert (same.parts, other.parts) == ((), ("request",))


def test_an_entry_that_only_one_has_is_missing() -> None:
    assert [found.parts for found in differences([entry(), entry()], [entry()])] == [(), ("missing",)]
