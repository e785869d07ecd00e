"""Sources of tasks: made by chance of the problems, or read from a file."""

from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from keyword import iskeyword
from pathlib import Path
from random import Random
from typing import Any

from openenv.core.seeding import rng
from openenv.core.tasks import GeneratedTasks, Task, TaskRef, TaskSet

from ..problems import PROBLEMS, Problem, Values
from .grading import Test, as_json_values, call_text

SHOWN_TESTS = 3
TESTS = 10


@dataclass(frozen=True)
class CodeTask:
    """A function to write.

    Attributes:
        prompt: What it is to do, without examples.
        function_name: Its name.
        tests: What it is tried with.
    """

    prompt: str
    function_name: str
    tests: tuple[Test, ...]

    @property
    def text(self) -> str:
        """The task, with the tests that are shown."""
        shown = [
            f"{call_text(self.function_name, test.arguments)} returns {test.expected!r}"
            for test in self.tests
            if test.shown
        ]
        return "\n".join([self.prompt, *(["For example:", *shown] if shown else [])])


class GeneratedCodeTasks(GeneratedTasks):
    """Tasks made by chance of the problems, the same task at the same index.

    The key of a task is its prompt: no problem with the same values is in two splits.
    """

    def make(self, place: TaskRef, difficulty: str | None) -> CodeTask:
        """Make a task; of any difficulty where that is ``None``."""
        chance = rng("code_feedback", place.split, place.index)
        problems = [one for one in PROBLEMS if difficulty in (None, one.difficulty)]
        problem, values = self.draw(place, partial(_drawn, chance, problems))
        namespace: dict[str, Any] = {}
        exec(problem.solved(values), namespace)  # noqa: S102  # our own code
        tests: list[Test] = []
        for arguments in _different(chance, problem, values):
            expected = as_json_values(namespace[problem.name](*deepcopy(arguments)))
            tests.append(Test(arguments, expected, len(tests) < SHOWN_TESTS))
        return CodeTask(problem.asked(values), problem.name, tuple(tests))


def _drawn(chance: Random, problems: list[Problem]) -> tuple[str, tuple[Problem, Values]]:
    """Draw a problem with its values; returns them after the key of the task."""
    problem = chance.choice(problems)
    values = problem.parameters(chance)
    return f"{problem.name}: {problem.asked(values)}", (problem, values)


def _different(chance: Random, problem: Problem, values: Values) -> list[list[Any]]:
    """Choose what a function is called with, never the same twice."""
    found: list[list[Any]] = []
    while len(found) < TESTS:
        arguments = problem.arguments(chance, values)
        if arguments not in found:
            found.append(arguments)
    return found


class CodeTaskFile(TaskSet):
    """Tasks of a file.

    Args:
        path: A ``.jsonl`` file with a task in each line, a ``.parquet`` file, or a ``.json`` file with a list of tasks
            or with an object that has a list for each split. A task has ``prompt``, ``function_name`` and ``tests``,
            each an object with ``arguments`` (a list), ``expected`` and, if it likes, ``shown``.

    Raises:
        ConfigurationError: The file is not like that.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path.resolve(), check=check_task)
        self.read()

    def make(self, place: TaskRef, difficulty: str | None) -> CodeTask:
        """Read a task, which is as hard as it is."""
        task = self.row(place, difficulty=difficulty)
        tests = [Test(test["arguments"], test["expected"], test.get("shown", False)) for test in task["tests"]]
        return CodeTask(task["prompt"], task["function_name"], tuple(tests))


def check_task(task: Task) -> None:
    """Check that an object is a task.

    Args:
        task: The object.

    Raises:
        ValueError: It is none; the message names the fault.
    """
    if not isinstance(task.get("prompt"), str) or not task["prompt"]:
        raise ValueError("'prompt' is a text")
    if not is_function_name(task.get("function_name")):
        raise ValueError("'function_name' is a name in Python")
    tests = task.get("tests")
    if not isinstance(tests, list) or not tests:
        raise ValueError("'tests' is a list with at least one test")
    for test in tests:
        if not isinstance(test, dict) or not isinstance(test.get("arguments"), list) or "expected" not in test:
            raise ValueError("a test is an object with 'arguments', a list, and 'expected'")
        if not isinstance(test.get("shown", False), bool):
            raise ValueError("'shown' is true or false")


def is_function_name(name: object) -> bool:
    """Return whether a function can have this name."""
    return isinstance(name, str) and name.isidentifier() and not iskeyword(name)


@cache
def task_source(path: str | Path | None) -> CodeTaskFile | GeneratedCodeTasks:
    """Return the tasks of a file, read once; or, without one, those that are made by chance."""
    return CodeTaskFile(Path(path)) if path else GeneratedCodeTasks()
