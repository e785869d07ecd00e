"""reasoning-gym's datasets by their names, and their tasks in splits."""

import ast
import inspect
import random
import textwrap
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

from openenv._extras import install_command

try:
    import numpy
    from reasoning_gym import create_dataset
    from reasoning_gym.composite import DatasetSpec
    from reasoning_gym.dataset import ProceduralDataset
    from reasoning_gym.factory import DATASETS
except ImportError as error:
    raise ImportError(f"This needs reasoning-gym: {install_command('reasoning-gym')}") from error

from openenv.adapters.ids import did_you_mean
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.core.tasks import GeneratedTasks, TaskRef
from openenv.core.tasks.sources import MOST_DRAWS

__all__ = ["DEFAULT_SIZE", "ReasoningTasks", "check_dataset", "make_task", "open_dataset", "runs_answers"]

DEFAULT_SIZE = 500

_SEEDS = 2**32
"""Seeds that numpy takes, which some datasets draw by."""
_COMPOSITE = "composite"
_LIMITED = frozenset({"acre", "gsm_symbolic", "list_functions", "word_ladder"})
"""Datasets that have no task after the last one of their size."""
_DRAWING_FROM_GLOBAL_NUMBERS = frozenset({"list_functions", "pool_matrix"})
_RUNNING = frozenset({"eval", "exec", "parse_expr", "sympify"})
_TASK_NAMES = frozenset({"entry", "metadata"})
_global_numbers = Lock()


class ReasoningTasks(GeneratedTasks):
    """Tasks of a dataset. A question is of the split that ``split_of`` draws for it, and so of one alone.

    The task ``i`` of a split is the first of its own among the tasks ``i``, ``i + size``, ``i + 2 * size`` and so on of
    the generator, so that a task is made without those before it. Another one is made for each that is of other splits.

    Args:
        name: The dataset's name.
        arguments: Its own parameters.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self.arguments = arguments
        self._size = arguments.get("size", DEFAULT_SIZE)
        self._lock = Lock()
        # Opened datasets by the seed's distance from that of the arguments; those without a limit by 0 alone.
        self._opened: dict[int, ProceduralDataset] = {}

    @property
    def task_counts(self) -> Mapping[str, int]:
        """Number of tasks of each split."""
        return dict.fromkeys(self.SPLITS, self._size)

    @property
    def dataset(self) -> ProceduralDataset:
        """The dataset, which is made at its first use: some take a second for that."""
        return self._open(0)

    def make(self, ref: TaskRef) -> dict[str, Any]:
        """Make a task: the same task for the same split and index.

        Raises:
            TaskNotFoundError: The dataset has too few questions: none of them is of this split.
        """
        with self._lock:  # knights_knaves has attributes for the time that it makes a task
            task: dict[str, Any] = self.draw(ref, partial(next, self._candidates(ref.index)))
        return task

    def _candidates(self, index: int) -> Iterator[tuple[str, dict[str, Any]]]:
        for distance in range(0, MOST_DRAWS * self._size, self._size):
            if _is_or_has(self.dataset, _LIMITED):
                task = make_task(self._open(distance), index)
            else:
                task = make_task(self.dataset, index + distance)
            yield task["question"], task

    def _open(self, distance: int) -> ProceduralDataset:
        if distance not in self._opened:
            seed = self.arguments.get("seed", 0) + distance
            self._opened[distance] = open_dataset(self.name, {**self.arguments, "seed": seed})
        return self._opened[distance]


def open_dataset(name: str, arguments: Mapping[str, Any]) -> ProceduralDataset:
    """Make a dataset."""
    defaults = {"seed": 0, "size": DEFAULT_SIZE}
    return create_dataset(name, **{**defaults, **arguments, **_parts(name, arguments)})


def make_task(dataset: ProceduralDataset, index: int) -> dict[str, Any]:
    """Make a task of the generator: the same task for the same index, whatever other threads do.

    Two datasets, ``list_functions`` and ``pool_matrix``, draw from random numbers that the whole process shares.
    """
    task: dict[str, Any]
    if _is_or_has(dataset, _DRAWING_FROM_GLOBAL_NUMBERS):
        with _seeded(dataset.seed + index):
            task = dataset[index]
    else:
        task = dataset[index]
    return task


def _is_or_has(dataset: ProceduralDataset, names: Container[str]) -> bool:
    """Return whether a dataset is one of some, or a composite that has one as a part."""
    parts = getattr(dataset, "datasets", None)  # those of a composite, by their names
    if isinstance(parts, Mapping):
        return any(_is_or_has(part, names) for part in parts.values())
    return type(dataset).__module__.rpartition(".")[2] in names


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the numbers that all share, for one thread at a time, and restore them."""
    with _global_numbers:
        state, numpy_state = random.getstate(), numpy.random.get_state()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
            numpy.random.set_state(numpy_state)


def check_dataset(name: str, arguments: Mapping[str, Any], sandbox: str | None) -> None:
    """Refuse a dataset that can't be served.

    Args:
        name: The dataset's name.
        arguments: Its own parameters.
        sandbox: ``"none"`` where this machine is itself a sandbox.

    Raises:
        EnvironmentNotFoundError: There is no such dataset; the message lists those with a similar name.
        ConfigurationError: It does not take these parameters, or it runs answers outside of a sandbox.
    """
    if name not in DATASETS:
        raise EnvironmentNotFoundError(f"reasoning-gym has no dataset {name!r}.{did_you_mean(name, DATASETS)}")
    _check_numbers(name, arguments)
    if sandbox not in (None, "none"):
        raise ConfigurationError(f"Expected sandbox=none behind reasoning_gym:{name}?, got {sandbox!r}.")
    try:
        open_dataset(name, arguments)
    except (TypeError, ValueError, AssertionError, AttributeError, KeyError) as error:
        raise ConfigurationError(
            f"reasoning_gym:{name} can't be made with {dict(arguments)}: {type(error).__name__}: {error}"
        ) from error
    risky = [each for each in _scored_by(name, arguments) if runs_answers(DATASETS[each][0])]
    if risky and sandbox is None:
        raise ConfigurationError(
            f"The dataset {risky[0]} scores an answer by running it as Python, so that an agent could do "
            "anything on this machine. Where the machine is itself a sandbox, give the parameter sandbox=none."
        )


def runs_answers(dataset: type[ProceduralDataset]) -> bool:
    """Return whether a dataset runs answers as Python to score them, by its source."""
    source = ast.parse(textwrap.dedent(inspect.getsource(dataset.score_answer)))
    calls = (node for node in ast.walk(source) if isinstance(node, ast.Call))
    return any(_called(call) in _RUNNING and not _is_of_the_task(call) for call in calls)


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_of_the_task(call: ast.Call) -> bool:
    """Return whether the code that is run is a part of the task, as in ``eval(entry["answer"])``."""
    argument = call.args[0] if call.args else None
    if not isinstance(argument, ast.Subscript) or not isinstance(argument.value, ast.Name):
        return False
    return argument.value.id in _TASK_NAMES


def _check_numbers(name: str, arguments: Mapping[str, Any]) -> None:
    seed, size = arguments.get("seed", 0), arguments.get("size", DEFAULT_SIZE)
    if (
        not all(type(number) is int for number in (seed, size))
        or seed < 0
        or size < 1
        or seed + MOST_DRAWS * size > _SEEDS
    ):
        raise ConfigurationError(
            f"Expected seed and size of reasoning_gym:{name} to be whole numbers, the seed from 0, the size from 1, "
            f"and seed + {MOST_DRAWS} * size at most {_SEEDS}; got {seed!r} and {size!r}."
        )


def _parts(name: str, arguments: Mapping[str, Any]) -> dict[str, list[DatasetSpec]]:
    """Read the parts of a composite, which is made of other datasets."""
    if name != _COMPOSITE:
        return {}
    return {"datasets": [DatasetSpec(**{"weight": 1.0, "config": {}, **part}) for part in arguments["datasets"]]}


def _scored_by(name: str, arguments: Mapping[str, Any]) -> list[str]:
    return [part["name"] for part in arguments["datasets"]] if name == _COMPOSITE else [name]
