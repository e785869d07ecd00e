"""Sources of tasks: made by chance, or read from a file."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from openenv.core.exceptions import ConfigurationError
from openenv.core.seeding import rng
from openenv.core.tasks import GeneratedTasks, Task, TaskRef, TaskSet

from ..models import DATABASES, DIFFICULTIES
from ..questions import QUESTIONS
from .databases import make_database
from .workers import shared_workers


@dataclass(frozen=True)
class SqlTask:
    """A question about a database.

    Attributes:
        database: Name of the database.
        data: Its image, or its file.
        question: The question.
        reference: The query whose result is the answer.
        ordered: Whether the order of the rows is a part of the answer.
        difficulty: How hard it is meant to be; ``None`` where it is unknown.
    """

    database: str
    data: bytes | Path
    question: str
    reference: str
    ordered: bool = False
    difficulty: str | None = None


class GeneratedSqlTasks(GeneratedTasks):
    """Databases and questions made by chance, the same ones at the same index.

    The key of a task is its database: no two splits have tasks about the same rows. Questions may be the same, with
    other answers.
    """

    def make(self, place: TaskRef, database: str | None, difficulty: str | None) -> SqlTask:
        """Make a task; what is ``None`` is left to chance."""
        chance = rng("sql", place.split, place.index)
        database = chance.choice(DATABASES) if database is None else database
        difficulty = chance.choice(DIFFICULTIES) if difficulty is None else difficulty
        number = self.draw(place, partial(_drawn, chance, database))
        kinds = [kind for kind in QUESTIONS if (kind.database, kind.difficulty) == (database, difficulty)]
        connection = make_database(database, rng(number, database))
        kind = chance.choice(kinds)
        cursor = connection.execute(kind.values)
        places = [column[0] for column in cursor.description]
        values = dict(zip(places, chance.choice(sorted(cursor)), strict=True))
        image = connection.serialize()
        connection.close()
        return SqlTask(database, image, kind.asked(values), kind.answered(values), kind.ordered, difficulty)


def _drawn(chance: Random, database: str) -> tuple[str, int]:
    """Draw the number that a database's rows are made of; returns it after the key."""
    number = chance.getrandbits(64)
    return f"{database} {number}", number


class SqlTaskFile(TaskSet):
    """Tasks of a file, each with its database beside it.

    Args:
        path: A ``.jsonl`` file with a task in each line, a ``.parquet`` file, or a ``.json`` file with a list of tasks
            or with an object that has a list for each split. A task has ``question``, ``reference`` (the query that
            answers it), ``database`` (a file in the same folder: an SQL script if it ends in ``.sql``) and, if it
            likes, ``ordered`` and ``difficulty``.

    Raises:
        ConfigurationError: The file is not like that, or a database is not there.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path.resolve(), check=self._check_with_database)
        self.folder = path.resolve().parent
        self.read()

    def make(self, place: TaskRef, database: str | None, difficulty: str | None) -> SqlTask:
        """Read a task with its database."""
        task = self.row(place, database=database, difficulty=difficulty)
        file = self._find(task["database"])
        data = shared_workers().build(file.read_text(encoding="utf-8")) if file.suffix == ".sql" else file
        return SqlTask(
            file.stem, data, task["question"], task["reference"], task.get("ordered", False), task.get("difficulty")
        )

    def _check_with_database(self, task: Task) -> None:
        check_task(task)
        self._find(task["database"])

    def _find(self, name: str) -> Path:
        file = (self.folder / name).resolve()
        if not file.is_relative_to(self.folder) or not file.is_file():
            raise ConfigurationError(f"Expected the database {name!r} as a file in the tasks' folder, {self.folder}.")
        return file


def check_task(task: Task) -> None:
    """Check that an object is a task.

    Args:
        task: The object.

    Raises:
        ValueError: It is none; the message names the fault.
    """
    for key in ("question", "reference", "database"):
        if not isinstance(task.get(key), str) or not task[key]:
            raise ValueError(f"{key!r} is a text")
    if not isinstance(task.get("ordered", False), bool):
        raise ValueError("'ordered' is true or false")
    if not isinstance(task.get("difficulty", ""), str):
        raise ValueError("'difficulty' is a text")
