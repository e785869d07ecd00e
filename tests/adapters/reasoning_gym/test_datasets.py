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
from openenv.adapters.reasoning_gym.datasets import SPLITS, check_dataset, make_task, open_dataset, runs_answers
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

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


@pytest.mark.parametrize("name", ["chain_sum", "leg_counting", "mini_sudoku"])
def test_no_task_is_in_two_splits(name: str) -> None:
    questions = {
        split: {entry["question"] for entry in open_dataset(name, {"size": 20, "seed": 3}, split)} for split in SPLITS
    }
    assert all(len(each) > 15 for each in questions.values())
    assert not questions["train"] & questions["test"]
    assert not questions["train"] & questions["validation"]


def test_the_seed_and_the_datasets_own_parameters_count() -> None:
    first, same, other = (
        open_dataset("chain_sum", {"seed": seed, "min_terms": 3, "max_terms": 3}, "train") for seed in (1, 1, 2)
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
    alone = open_dataset(name, arguments, "train")
    expected = [make_task(alone, index) for index in range(40)]
    state, numpy_state = random.getstate(), numpy.random.get_state(legacy=False)["state"]["key"].tolist()

    def made(_: int) -> list[dict[str, Any]]:
        dataset = open_dataset(name, arguments, "train")
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
    names = {
        entry["metadata"]["source_dataset"] for entry in open_dataset("composite", {**COMPOSITE, "size": 40}, "test")
    }
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
        ("chain_sum", {"seed": 10**9}, "together at most 1000000000"),
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
