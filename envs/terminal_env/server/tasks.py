"""Sources of tasks: made by chance, or read from a file."""

from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ValidationError

from openenv.core.exceptions import ConfigurationError
from openenv.core.seeding import rng
from openenv.core.tasks import GeneratedTasks, Task, TaskRef, TaskSet

from ..models import DIFFICULTIES
from .families import FAMILIES
from .task_format import TerminalTask

_MOST_FILE_BYTES = 2**20


class GeneratedTerminalTasks(GeneratedTasks):
    """Tasks made by chance, the same task at the same index.

    The key of a task is all of it, as the same request needs other commands for other files.
    """

    def make(self, place: TaskRef, family: str | None, difficulty: str | None) -> TerminalTask:
        """Make a task; what is ``None`` is left to chance."""
        chance = rng("terminal", place.split, place.index)
        return self.draw(place, partial(_drawn, chance, family, difficulty))


def _drawn(chance: Random, family: str | None, difficulty: str | None) -> tuple[str, TerminalTask]:
    """Draw a task; returns it after its key."""
    chosen = chance.choice(tuple(FAMILIES)), chance.choice(DIFFICULTIES)
    task = FAMILIES[family or chosen[0]](chance, difficulty or chosen[1])
    return task.model_dump_json(), task


class TerminalTaskFile(TaskSet):
    """Tasks of a file.

    Args:
        path: A ``.jsonl`` file with a task in each line, a ``.parquet`` file, or a ``.json`` file with a list of tasks
            or with an object that has a list for each split. A task has the fields of ``TerminalTask``. If it has
            ``folder``, the name of a folder beside the file, what lies in that are its files too.

    Raises:
        ConfigurationError: The file is not like that, or a folder is not there.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path.resolve(), check=self._check_with_folder)
        self.folder = path.resolve().parent
        self.read()

    def make(self, place: TaskRef, family: str | None, difficulty: str | None) -> TerminalTask:
        """Read a task."""
        task = self.row(place, family=family, difficulty=difficulty)
        return TerminalTask.model_validate(_without_folder(task) | {"files": self._files(task)})

    def _check_with_folder(self, task: Task) -> None:
        check_task(task)
        self._files(task)

    def _files(self, task: Task) -> dict[str, str]:
        files: dict[str, str] = dict(task.get("files") or {})
        if task.get("folder") is None:
            return files
        folder = (self.folder / task["folder"]).resolve()
        if not folder.is_relative_to(self.folder) or not folder.is_dir():
            raise ConfigurationError(f"Expected {task['folder']!r} as a folder beside the tasks, in {self.folder}.")
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                files[file.relative_to(folder).as_posix()] = _text(file)
        return files


def check_task(task: Task) -> None:
    """Check that an object is a task.

    Args:
        task: The object.

    Raises:
        ValueError: It is none; the message names the fault.
    """
    if not isinstance(task.get("folder"), str | None):
        raise ValueError("'folder' is the name of a folder beside the file")
    try:
        TerminalTask.model_validate(_without_folder(task))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}") from error


def _without_folder(task: Task) -> dict[str, Any]:
    # Tables have a column for every task, with nothing in it where a task has no such field.
    return {name: value for name, value in task.items() if name != "folder" and value is not None}


def _text(file: Path) -> str:
    if file.stat().st_size > _MOST_FILE_BYTES:
        raise ConfigurationError(f"Expected files of at most {_MOST_FILE_BYTES} bytes, {file} is longer.")
    try:
        return file.read_text(encoding="utf-8")
    except ValueError as error:
        raise ConfigurationError(f"Expected a text in UTF-8 in {file}: {error}") from error


@cache
def task_source(path: str | Path | None) -> TerminalTaskFile | GeneratedTerminalTasks:
    """Return the tasks of a file, read once; or, without one, those that are made by chance."""
    return TerminalTaskFile(Path(path)) if path else GeneratedTerminalTasks()
