"""Environments that list tasks have splits for training, validation and test, which share none."""

import inspect
from itertools import combinations, product
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv.auto.package import EnvironmentPackage
from openenv.core.tasks import GeneratedTasks, TaskListing, TaskRef

from .every_environment import each_environment

SPLITS = ("train", "validation", "test")
LISTING = ("code_feedback_env", "reasoning_gym_env", "sql_env", "terminal_env")
"""Environments that list tasks, by import path; for all others each seed is one."""

DRAWING = {
    "code_feedback_env": ("difficulty",),
    "sql_env": ("database", "difficulty"),
    "terminal_env": ("family", "difficulty"),
}
"""Those whose tasks are drawn by chance, and what a reset may choose of them."""


@pytest.fixture(params=each_environment())
def package(request: pytest.FixtureRequest) -> EnvironmentPackage:
    """Each environment."""
    found: EnvironmentPackage = request.param
    return found


@pytest.mark.level("process")  # the first imports an environment's libraries
def test_all_that_list_tasks_are_known(package: EnvironmentPackage) -> None:
    lists = issubclass(package.environment_class(), TaskListing) or hasattr(package.environment_class(), "list_splits")
    assert lists == (package.module in LISTING), "say in this file how its splits share no task"


@pytest.mark.parametrize("module", sorted(DRAWING))
def test_no_task_that_is_drawn_is_in_two_splits(module: str) -> None:
    source = source_of(module)
    assert source.list_splits() == list(SPLITS)

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.integers(0, source.TASKS_PER_SPLIT - 1), min_size=5, max_size=20, unique=True))
    def none_is_shared(indices: list[int]) -> None:
        found = {split: {asked_of(source, TaskRef(split, index)) for index in indices} for split in SPLITS}
        assert all(not found[one] & found[other] for one, other in combinations(SPLITS, 2))

    none_is_shared()


@pytest.mark.parametrize("module", sorted(DRAWING))
def test_each_split_has_tasks_of_each_choice(module: str) -> None:
    source = source_of(module)
    models = __import__(f"{module}.models", fromlist=["models"])
    choices = [get_args(getattr(models, name.capitalize())) for name in DRAWING[module]]
    for split, *chosen in product(SPLITS, *choices):
        for index in range(3):
            assert source.make(TaskRef(split, index), *chosen)


@pytest.mark.needs("reasoning-gym")
def test_questions_of_a_dataset_are_in_one_split() -> None:
    from reasoning_gym_env.server.reasoning_gym_environment import ReasoningGymEnvironment

    environment = ReasoningGymEnvironment()
    asked = {split: {environment.reset(split=split, index=index).text for index in range(100)} for split in SPLITS}
    assert all(not asked[one] & asked[other] for one, other in combinations(SPLITS, 2))


def source_of(module: str) -> Any:
    """Return the source of an environment's tasks that are drawn by chance."""
    tasks = __import__(f"{module}.server.tasks", fromlist=["tasks"])
    (cls,) = (
        cls
        for cls in vars(tasks).values()
        if inspect.isclass(cls) and issubclass(cls, GeneratedTasks) and cls is not GeneratedTasks
    )
    return cls()


def asked_of(source: Any, ref: TaskRef) -> str:
    """Return what makes a task another one: what is asked, and of which data."""
    task = source.make(ref, *[None] * (len(inspect.signature(source.make).parameters) - 1))
    return f"{task.prompt} {task.function_name}" if hasattr(task, "function_name") else repr(task)
