"""The tasks of a SkyRL-Gym environment: the rows of a dataset, as SkyRL's trainer reads them."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from openenv.core.exceptions import ConfigurationError

SPLIT = "train"

Task = Mapping[str, Any]


@cache
def read_tasks(path: Path) -> Mapping[str, Sequence[Task]]:
    """Read a file of tasks; it is read once.

    Args:
        path: A ``.parquet`` file, a ``.jsonl`` file with a task in each line, or a ``.json`` file with a list of tasks
            or with an object that has a list for each split. A task's ``prompt`` is a list of messages or a text; its
            other fields are what the environment is given as ``extras``.

    Returns:
        The tasks of each split; without names, there is the split ``train``.

    Raises:
        ConfigurationError: It is not as it must be, or is not there.
    """
    try:
        found = _parquet(path) if path.suffix == ".parquet" else _json(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"The tasks can't be read from {path}: {error}") from error
    splits = found if isinstance(found, dict) else {SPLIT: found}
    for name, tasks in splits.items():
        _check(f"{path}, {name}", tasks)
    return splits


def messages_of(prompt: Any) -> list[dict[str, Any]]:
    """Return a prompt as messages; a text is what the user says.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, list) and all(
        isinstance(each, dict) and {"role", "content"} <= each.keys() for each in prompt
    ):
        return [dict(each) for each in prompt]
    raise ValueError(f'expected a text or messages like {{"role": "user", "content": "..."}}, got {prompt!r:.100}')


def _is_message(each: Any) -> bool:
    return isinstance(each, dict) and {"role", "content"} <= each.keys()


def _json(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [from_json(line) for line in text.split("\n") if line.strip()]
    return from_json(text)


def _parquet(path: Path) -> list[Task]:
    try:
        from pyarrow.parquet import read_table  # not in the extra: it is heavy, and only this kind of file needs it
    except ImportError as error:
        raise ConfigurationError(f"Reading {path} needs pyarrow: pip install pyarrow") from error
    rows: list[Task] = read_table(path).to_pylist()
    return rows


def _check(place: str, tasks: Any) -> None:
    if not isinstance(tasks, list):
        raise ConfigurationError(f"{place}: expected a list of tasks, got {tasks!r:.100}.")
    for index, task in enumerate(tasks):
        try:
            messages_of(task["prompt"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f'{place}[{index}]: expected a task like {{"prompt": [...], "reward_spec": ...}}, got {task!r:.100}.'
            ) from error
