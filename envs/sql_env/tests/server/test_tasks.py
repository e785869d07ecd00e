"""Where tasks come from."""

import copy
import json
import sqlite3
from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError, InvalidRequestError, TaskNotFoundError
from openenv.core.tasks import TaskRef
from sql_env import SubmitAction
from sql_env.models import DATABASES, DIFFICULTIES
from sql_env.server.sql_environment import SqlEnvironment
from sql_env.server.tasks import GeneratedSqlTasks, SqlTaskFile
from sql_env.server.workers import Workers

TASK = {"question": "How many?", "reference": "SELECT count(*) FROM t", "database": "made.sql"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "made.sql").write_text("CREATE TABLE t (a); INSERT INTO t VALUES ('x'), ('y');", encoding="utf-8")
    with sqlite3.connect(tmp_path / "file.db") as made:
        made.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3);")
    made.close()
    return tmp_path


def written(folder: Path, *tasks: object, name: str = "tasks.jsonl") -> Path:
    file = folder / name
    file.write_text("\n".join(json.dumps(task) for task in tasks), encoding="utf-8")
    return file


def test_a_place_is_a_task_and_splits_share_none() -> None:
    tasks = GeneratedSqlTasks()
    assert tasks.make(TaskRef("train", 7), None, None) == GeneratedSqlTasks().make(TaskRef("train", 7), None, None)
    made = {
        split: {tasks.make(TaskRef(split, index), None, None).data for index in range(40)}
        for split in tasks.list_splits()
    }
    assert list(made) == ["train", "validation", "test"]
    assert all(len(images) == 40 for images in made.values())
    assert not made["train"] & made["test"]
    assert not made["train"] & made["validation"]


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_database_and_difficulty_can_be_chosen(database: str, difficulty: str) -> None:
    task = GeneratedSqlTasks().make(TaskRef("test", 3), database, difficulty)
    assert (task.database, task.difficulty) == (database, difficulty)


def test_tasks_of_a_file_are_played(folder: Path) -> None:
    listed = {**TASK, "database": "file.db", "reference": "SELECT a FROM t ORDER BY a DESC", "ordered": True}
    environment = SqlEnvironment(written(folder, TASK, listed))
    first = environment.reset(index=0)
    assert (first.question, first.tables) == ("How many?", {"t": ["a"]})
    assert environment.state.database == "made"
    assert environment.list_splits() == ["train"]
    assert environment.num_tasks("train") == 2
    assert environment.get_task("train", 1) == {"split": "train", "index": 1}
    with pytest.raises(TaskNotFoundError):
        environment.reset(index=2)
    assert environment.step(SubmitAction(answer=2)).reward == 1.0
    for answer, reward in (([3, 2, 1], 1.0), ([1, 2, 3], 0.0)):
        environment.reset(index=1)
        assert environment.step(SubmitAction(answer=list(answer))).reward == reward


def test_a_variable_names_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQL_TASKS", str(written(folder, TASK)))
    assert SqlEnvironment().task_counts == {"train": 1}


def test_splits_come_from_a_json_file(folder: Path) -> None:
    file = written(folder, {"train": [TASK], "test": [{**TASK, "id": name} for name in "ab"]}, name="tasks.json")
    assert SqlTaskFile(file).task_counts == {"train": 1, "test": 2}


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({**TASK, "question": ""}, "'question' is a text"),
        ({**TASK, "reference": None}, "'reference' is a text"),
        ({"question": "a", "reference": "b"}, "'database' is a text"),
        ({**TASK, "ordered": "yes"}, "'ordered' is true or false"),
        ({**TASK, "difficulty": 3}, "'difficulty' is a text"),
        ({**TASK, "database": "nothing.db"}, r"Expected the database 'nothing\.db' as a file"),
        ({**TASK, "database": "../made.sql"}, "in the tasks' folder"),
        ({**TASK, "database": "/etc/passwd"}, "in the tasks' folder"),
        (["not", "an", "object"], "a task is an object"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_refused(folder: Path, task: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        SqlTaskFile(written(folder, task))


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "other.db"
    outside.write_bytes((folder / "file.db").read_bytes())
    (folder / "link.db").symlink_to(outside)
    with pytest.raises(ConfigurationError, match="in the tasks' folder"):
        SqlTaskFile(written(folder, {**TASK, "database": "link.db"}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reference": "SELECT b FROM t"}, "the reference of task 0 in train: no such column"),
        ({"reference": "DELETE FROM t"}, "the reference of task 0 in train: Expected one statement that reads"),
        (
            {"reference": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"},
            "at most 1000 rows",
        ),
        ({"database": "bad.sql"}, "The script makes no database"),
    ],
)
def test_a_task_that_cannot_be_answered_says_why(folder: Path, change: dict[str, str], told: str) -> None:
    (folder / "bad.sql").write_text("ATTACH 'x' AS y", encoding="utf-8")
    environment = SqlEnvironment(written(folder, {**TASK, **change}))
    with pytest.raises(ConfigurationError, match=told):
        environment.reset(index=0)


def test_tasks_of_a_file_are_not_chosen_by_what_they_are_about(folder: Path) -> None:
    environment = SqlEnvironment(written(folder, TASK))
    with pytest.raises(InvalidRequestError, match="come from a file"):
        environment.reset(index=0, difficulty="easy")


def test_copies_share_the_tasks(folder: Path) -> None:
    tasks = SqlTaskFile(written(folder, TASK))
    assert copy.deepcopy(tasks) is tasks


def test_a_database_file_is_not_copied(folder: Path, workers: Workers) -> None:
    task = SqlTaskFile(written(folder, {**TASK, "database": "file.db"})).make(TaskRef("train", 0), None, None)
    assert task.data == folder.resolve() / "file.db"
    assert workers.query(task.data, task.reference, 10).rows == [[3]]
