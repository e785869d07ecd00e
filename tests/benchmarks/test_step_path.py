"""The functions of a step are those that it calls, and nothing that only happens at the same time."""

import asyncio
import gc
import sys
import threading

import pytest
from benchmarks import step_path


class Step:
    """A step that goes a longer way the first times, and once again."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self) -> None:
        self.calls += 1
        self.answered([number + 1 for number in range(2)])
        if self.calls <= 3 or self.calls == 5:
            self.checked()
        assert not gc.isenabled() or self.calls <= 3
        other = threading.Thread(target=self.from_a_thread)
        other.start()
        other.join()
        await asyncio.sleep(0)

    def answered(self, numbers: list[int]) -> None:
        """Do nothing."""

    def checked(self) -> None:
        """Do nothing."""

    def from_a_thread(self) -> None:
        """Do nothing."""


def test_the_shortest_way_counts_without_other_threads_and_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_path, "_SOURCE", __file__)
    step, profiles = Step(), sys.getprofile()
    way = asyncio.run(step_path.shortest_way([step] * 6))
    assert way == {"Step.__call__": True, "Step.answered": False}
    assert step.calls == 6
    assert gc.isenabled()
    assert sys.getprofile() is profiles


async def straight() -> None:
    """Call the last function."""
    last()


async def roundabout() -> None:
    """Call the last function through another."""
    between()


def between() -> None:
    """Call the last function."""
    last()


def last() -> None:
    """Do nothing."""


def test_a_function_in_between_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_path, "_SOURCE", __file__)
    assert list(asyncio.run(step_path.shortest_way([straight] * 4))) == ["straight", "last"]
    assert list(asyncio.run(step_path.shortest_way([roundabout] * 4))) == ["roundabout", "between", "last"]
