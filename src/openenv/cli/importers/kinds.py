"""Kinds of new environments: with tools, around a file of tasks, around an environment of Gymnasium."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from openenv._version import __version__
from openenv.adapters.ids import short_name
from openenv.adapters.targets import find_adapted
from openenv.cli.scaffold import common_values, requirement_values, write_environment
from openenv.core.exceptions import ConfigurationError
from openenv.core.tasks import Task, TaskRef, TaskSet

_EMPTY_FOLDERS = ("outputs/logs", "outputs/evals")
_QUESTIONS = ("question", "prompt", "problem", "query", "instruction", "input", "text")
_ANSWERS = ("answer", "solution", "target", "expected", "output", "label")
_GYMNASIUM = "gymnasium"


@dataclass(frozen=True)
class EnvironmentKind:
    """A kind of environment.

    Attributes:
        templates: The folder of its templates.
        values: Values of the names in them, beside those of every environment.
        tasks: A file that goes into its folder ``server``.
        training: Options with which ``openenv train`` trains on it, with a space before them.
    """

    templates: str = "environment"
    values: Mapping[str, str] = field(default_factory=dict)
    tasks: Path | None = None
    training: str = ""

    def write(self, name: str, folder: Path) -> None:
        """Write the folder of a new environment."""
        write_environment([self.templates], folder, {**common_values(name), **self.values})
        for empty in _EMPTY_FOLDERS:
            (folder / empty).mkdir(parents=True)
        if self.tasks is not None:
            shutil.copyfile(self.tasks, folder / "server" / self.values["tasks_name"])


TOOLS = EnvironmentKind("tools", training=" --sft 500")
"""The kind whose actions are calls of tools. A model with random weights learns calls from examples first."""


def kind_of_tasks(file: Path) -> EnvironmentKind:
    """Return the kind that plays the tasks of a file, each a question and its answer.

    Raises:
        ConfigurationError: The file can't be read, has no tasks, or no columns for a question and an answer.
    """
    tasks = TaskSet(file.resolve())
    counts = {split: tasks.num_tasks(split) for split in tasks.list_splits() if tasks.num_tasks(split)}
    if not counts:
        raise ConfigurationError(f"Expected at least one task in {file}, found none.")
    rows = [tasks.row(TaskRef(split, index)) for split, count in counts.items() for index in range(count)]
    name = f"tasks{file.suffix}"
    values = {
        "tasks_name": name,
        "tasks_file": json.dumps(name),
        "question_column": json.dumps(_column(file, rows, "question", _QUESTIONS)),
        "answer_column": json.dumps(_column(file, rows, "answer", _ANSWERS)),
        "split": next(iter(counts)),
        "task_counts": ", ".join(f"{count} in `{split}`" for split, count in counts.items()),
    }
    needed = ["pyarrow"] if file.suffix == ".parquet" else []
    return EnvironmentKind("tasks", {**values, **_requirements("openenv-core", *needed)}, file)


def kind_around(target: str) -> EnvironmentKind:
    """Return the kind that plays an environment of Gymnasium, and has a method to change what it gives.

    Args:
        target: The environment, as ``gymnasium:ID``.

    Raises:
        ConfigurationError: It is of another library, or can't be made.
        EnvironmentNotFoundError: Gymnasium has no such environment.
    """
    prefix, _, env_id = target.partition(":")
    if prefix != _GYMNASIUM or not env_id:
        raise ConfigurationError(f"Expected gymnasium:ID, as in gymnasium:CartPole-v1, got {target!r}.")
    adapted: Any = find_adapted(target).environment_class
    library = adapted.module.partition(".")[0]
    needed = [] if library == _GYMNASIUM else packages_distributions().get(library, [])
    values = {
        "reference": f"{prefix}:{short_name(env_id)}",
        "gymnasium_id": json.dumps(env_id),
        "about": " ".join(adapted.description.split()),
        "action_space": f"a value of `{_on_a_line(adapted.action_codec.space)}`",
        "observation_space": f"a value of `{_on_a_line(adapted.observation_codec.space)}`",
        "sample_action": repr(adapted.action_codec.encode(_sample(adapted.action_codec.space))),
        "manifest_player": "",
        "manifest_validation": "",
    }
    return EnvironmentKind("wrapped", {**values, **_requirements("openenv-core[gymnasium]", *needed)})


def _on_a_line(value: object) -> str:
    return " ".join(str(value).split())


def _sample(space: Any) -> Any:
    space.seed(0)
    return space.sample()


def _requirements(core: str, *others: str) -> dict[str, str]:
    return requirement_values([f"{core}>={__version__}", *others])


def _column(file: Path, rows: Sequence[Task], role: str, names: Sequence[str]) -> str:
    """Return the column that every row has a value in and that is named like a role."""
    columns = [column for column in rows[0] if all(row.get(column) is not None for row in rows)]
    by_name = {column.lower(): column for column in columns}
    found = next((by_name[name] for name in names if name in by_name), None)
    if found is None:
        raise ConfigurationError(
            f"{file}: no column for the {role}. Expected a value in each row, in a column that is called "
            f"{', '.join(names[:-1])} or {names[-1]}; every row has {', '.join(columns) or 'no column'}."
        )
    return found
