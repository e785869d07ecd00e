"""Datasets of reasoning-gym: their splits, their parameters, and those that run answers."""

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import pytest
from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import DATASETS

from openenv._extras import install_command
from openenv.adapters.reasoning_gym.datasets import ReasoningTasks, check_dataset, make_task, open_dataset, runs_answers
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, TaskNotFoundError
from openenv.core.tasks import TaskRef, split_of

pytestmark = pytest.mark.needs("reasoning-gym")

COMPOSITE = {"datasets": [{"name": "chain_sum"}, {"name": "leg_counting", "weight": 2, "config": {"max_animals": 3}}]}


def test_those_that_run_answers_as_python_are_known() -> None:
    running = sorted(name for name, (dataset, _) in DATASETS.items() if runs_answers(dataset))
    assert running == [
        "binary_matrix",
        "countdown",
        "intermediate_integration",
        "n_queens",
        "polynomial_multiplication",
        "puzzle24",
        "simple_integration",
        "spiral_matrix",
        "string_insertion",
    ]


class Runs(ProceduralDataset):  # type: ignore[misc]  # reasoning-gym has no types
    def __getitem__(self, idx: int) -> dict[str, Any]:
        return {}

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        return float(eval(entry["answer"])) + self.also(eval(str(answer)))

    def also(self, value: float) -> float:
        return value


class RunsItsOwn(Runs):
    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        return float(eval(entry["answer"]) == answer)


def test_what_is_run_counts_unless_it_is_the_datasets_own() -> None:
    assert runs_answers(Runs)
    assert not runs_answers(RunsItsOwn)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("n_queens", {}), ("composite", {"datasets": [{"name": "chain_sum"}, {"name": "n_queens"}]})],
)
def test_answers_are_not_run_outside_of_a_sandbox(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"n_queens scores an answer by running it as Python.*sandbox=none"):
        check_dataset(name, arguments, None)
    check_dataset(name, arguments, "none")


# coin_flip has few questions; list_functions and word_ladder have no task after the last one of their size.
@pytest.mark.parametrize(
    "name", ["chain_sum", "coin_flip", "composite", "leg_counting", "list_functions", "mini_sudoku", "word_ladder"]
)
def test_no_question_is_in_two_splits(name: str) -> None:
    tasks = ReasoningTasks(name, {"size": 60, "seed": 3, **(COMPOSITE if name == "composite" else {})})
    assert tasks.task_counts == {"train": 60, "validation": 60, "test": 60}
    asked = {split: {tasks.make(TaskRef(split, index))["question"] for index in range(60)} for split in tasks.SPLITS}
    assert all(len(questions) > 20 for questions in asked.values())
    assert all(split_of(question) == split for split, questions in asked.items() for question in questions)


def test_a_task_is_the_same_without_those_before_it() -> None:
    one, other = (ReasoningTasks("chain_sum", {"size": 500}) for _ in range(2))
    refs = [TaskRef(split, index) for split in one.SPLITS for index in range(490, 500)]
    assert [one.make(ref) for ref in refs] == [other.make(ref) for ref in reversed(refs)][::-1]


def test_a_dataset_with_two_questions_leaves_a_split_empty() -> None:
    once = {"min_trials": 1, "max_trials": 1, "allow_at_least": False}
    tasks = ReasoningTasks("coin_flip", once)
    questions = {open_dataset("coin_flip", once)[index]["question"] for index in range(50)}
    assert len(questions) == 2
    has_some = {split_of(question) for question in questions}
    assert {tasks.make(TaskRef(split, 499))["question"] for split in has_some} <= questions
    for split in set(tasks.SPLITS) - has_some:
        with pytest.raises(TaskNotFoundError, match=rf"the split {split} within 1000 draws, .* 2 different ones"):
            tasks.make(TaskRef(split, 0))


def test_the_seed_and_the_datasets_own_parameters_count() -> None:
    first, same, other = (
        open_dataset("chain_sum", {"seed": seed, "min_terms": 3, "max_terms": 3}) for seed in (1, 1, 2)
    )
    assert first[0] == same[0] != other[0]
    assert first[0]["question"].count("+") + first[0]["question"].count("-") == 2


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_functions", {}),
        ("pool_matrix", {}),
        ("composite", {"datasets": [{"name": "list_functions"}, {"name": "pool_matrix"}]}),
    ],
)
def test_tasks_are_the_same_whatever_other_threads_do(name: str, arguments: dict[str, Any]) -> None:
    alone = open_dataset(name, arguments)
    expected = [make_task(alone, index) for index in range(40)]
    state, numpy_state = random.getstate(), numpy.random.get_state(legacy=False)["state"]["key"].tolist()

    def made(_: int) -> list[dict[str, Any]]:
        dataset = open_dataset(name, arguments)
        return [make_task(dataset, index) for index in range(40)]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(made, range(8)))
    assert answers == [expected] * 8
    assert random.getstate() == state
    assert numpy.random.get_state(legacy=False)["state"]["key"].tolist() == numpy_state


def test_without_reasoning_gym_the_models_are_there_and_the_rest_says_what_to_install() -> None:
    program = """
import sys
sys.modules["reasoning_gym"] = None
from openenv.adapters.reasoning_gym import AnswerAction, ReasoningObservation, ReasoningState
try:
    from openenv.adapters.reasoning_gym import environment_for
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"This needs reasoning-gym: {install_command('reasoning-gym')}\n"


def test_a_composite_is_made_of_others() -> None:
    names = {entry["metadata"]["source_dataset"] for entry in open_dataset("composite", {**COMPOSITE, "size": 40})}
    assert names == {"chain_sum", "leg_counting"}


def test_an_unknown_dataset_lists_close_ones() -> None:
    with pytest.raises(EnvironmentNotFoundError, match=r"no dataset 'chainsum'\. Did you mean chain_sum"):
        check_dataset("chainsum", {}, None)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("chain_sum", {"terms": 3}, "unexpected keyword argument 'terms'"),
        ("chain_sum", {"min_terms": -1}, "AssertionError"),
        ("chain_sum", {"size": 0}, "size from 1"),
        ("chain_sum", {"seed": -1}, "got -1 and 500"),
        ("chain_sum", {"seed": "x"}, "got 'x' and 500"),
        ("chain_sum", {"seed": True}, "got True and 500"),
        ("chain_sum", {"seed": 2**32}, r"seed \+ 1000 \* size at most 4294967296"),
        ("composite", {}, "KeyError: 'datasets'"),
        ("composite", {"datasets": [{"name": "nothing"}]}, "'nothing' not registered"),
    ],
)
def test_wrong_parameters_are_refused(name: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        check_dataset(name, arguments, None)


def test_a_sandbox_is_none_or_not_there() -> None:
    with pytest.raises(ConfigurationError, match=r"sandbox=none behind reasoning_gym:chain_sum.*got 'docker'"):
        check_dataset("chain_sum", {}, "docker")
