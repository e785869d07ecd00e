"""Tasks that are made by chance."""

import copy
from collections import Counter
from functools import partial
from random import Random

import pytest

from openenv.core.exceptions import TaskNotFoundError
from openenv.core.seeding import rng
from openenv.core.tasks import GeneratedTasks, TaskRef, split_of


def test_tasks_made_by_chance_have_three_splits() -> None:
    tasks = GeneratedTasks()
    assert tasks.task_counts == {"train": 10_000, "validation": 10_000, "test": 10_000}
    assert tasks.choose_task(None, None, seed=12_345) == TaskRef("train", 2_345)


def test_copies_of_an_environment_share_its_tasks() -> None:
    tasks = GeneratedTasks()
    assert copy.deepcopy({"tasks": tasks})["tasks"] is tasks


class Sums(GeneratedTasks):
    """Sums of two digits, of which there are a hundred."""

    def make(self, ref: TaskRef, most: int = 9) -> str:
        chance = rng("sums", ref.split, ref.index)
        return self.draw(ref, partial(drawn, chance, most))


def drawn(chance: Random, most: int) -> tuple[str, str]:
    text = f"{chance.randint(0, most)} + {chance.randint(0, most)} ="
    return text, text


def test_no_task_is_in_two_splits() -> None:
    sums = Sums()
    found = {split: {sums.make(TaskRef(split, index)) for index in range(500)} for split in sums.SPLITS}
    assert sum(map(len, found.values())) == len(set().union(*found.values())) > 90
    assert all(split_of(text) == split for split, texts in found.items() for text in texts)
    assert sums.make(TaskRef("test", 3)) == sums.make(TaskRef("test", 3))


def test_what_is_chosen_may_leave_a_split_nothing() -> None:
    split = next(name for name in Sums.SPLITS if name != split_of("0 + 0 ="))
    with pytest.raises(TaskNotFoundError, match=rf"a task of the split {split} .* got those of other splits only"):
        Sums().make(TaskRef(split, 0), most=0)


def test_the_split_of_a_key_stays_the_same_and_most_are_of_the_first() -> None:
    assert [split_of(key) for key in ("b", "c", "e")] == ["validation", "train", "test"]
    counts = Counter(split_of(str(number)) for number in range(5000))
    assert counts["train"] == pytest.approx(3000, rel=0.1)
    assert counts["validation"] == pytest.approx(1000, rel=0.1)
    assert {split_of(str(number), ("all",)) for number in range(20)} == {"all"}
