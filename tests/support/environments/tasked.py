"""Counters that say something of their tasks, each with other methods and in another place."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from tests.support.environments.common import (
    AsyncCounterEnvironment,
    CounterEnvironment,
    ThreadedCounterEnvironment,
    Total,
)

TASKS = {"train": [{"start": 1}, {"start": 2}, {"start": 3}], "test": [{"start": 9}]}


class Split(BaseModel):
    """What may be listed in place of a name."""

    name: str
    type: str


class ListingEnvironment(ThreadedCounterEnvironment):
    """Answers every question; a reset takes a task by its place in the list."""

    def list_splits(self) -> list[Any]:
        return ["train", "curious", {"name": "held-out", "type": "test"}, Split(name="test", type="test")]

    def list_tasks(self, split: str) -> list[dict[str, int]]:
        return TASKS[split]

    def num_tasks(self, split: str) -> int:
        return len(TASKS[split])

    def get_task(self, split: str, index: int) -> dict[str, int]:
        return TASKS[split][index]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> Iterator[dict[str, int]]:
        yield from TASKS[split][start:stop]

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, split: str = "train", index: int = 0
    ) -> Total:
        super().reset(seed, episode_id)
        self._counter.total = self.get_task(split, index)["start"]
        return Total(total=self._counter.total)


class AsyncListingEnvironment(AsyncCounterEnvironment):
    """Answers every question, in coroutines; a reset takes a task's fields."""

    async def list_splits(self) -> list[str]:
        return list(TASKS)

    async def list_tasks(self, split: str) -> list[dict[str, int]]:
        return TASKS[split]

    async def num_tasks(self, split: str) -> int:
        return len(TASKS[split])

    async def get_task(self, split: str, index: int) -> dict[str, int]:
        return TASKS[split][index]

    async def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> Any:
        raise NotImplementedError

    async def reset(self, start: int = 0) -> Total:  # type: ignore[override]
        await super().reset()
        self._counter.total = start
        return Total(total=start)


class CountingTasksEnvironment(CounterEnvironment):
    """Only counts its tasks and gives them one by one; they are no objects."""

    def num_tasks(self, split: str) -> int:
        return 3

    def get_task(self, split: str, index: int) -> str:
        return ["a", "b", "c"][index]


class WrongListsEnvironment(CounterEnvironment):
    """Answers with what is no answer."""

    def list_splits(self) -> Any:
        return [{"type": "train"}]

    def list_tasks(self, split: str) -> Any:
        return {"unsendable": object()}.get(split, "text")

    def num_tasks(self, split: str) -> Any:
        return {"minus": -1, "flag": True}.get(split, "many")

    def get_task(self, split: str, index: int) -> Any:
        raise ValueError("kaboom")
