"""Tasks by a split's name, and from files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import openenv
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.tasks.task_choice import Client, named_tasks

pytestmark = pytest.mark.needs("reasoning-gym")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with openenv.make("reasoning_gym").sync() as connected:
        yield connected


def test_a_split(client: Client) -> None:
    tasks = named_tasks("train", client)
    assert tasks[:2] == [{"split": "train", "index": 0}, {"split": "train", "index": 1}]
    with pytest.raises(OpenEnvError, match="no_such_split"):
        named_tasks("no_such_split", client)


def test_files_are_read_anew(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"seed": 1}\n\n{"seed": 2, "level": "hard"}\n')
    assert named_tasks(str(file), client) == [{"seed": 1}, {"seed": 2, "level": "hard"}]
    file.write_text('{"seed": 3}\n')
    assert named_tasks(str(file), client) == [{"seed": 3}]
    splits = tmp_path / "tasks.json"
    splits.write_text(json.dumps({"train": [{"seed": 1}], "test": [{"seed": 2}]}))
    assert named_tasks(str(splits), client) == [{"seed": 1}, {"seed": 2}]


def test_the_first_of_them(client: Client) -> None:
    assert named_tasks("train", client, 2) == named_tasks("train", client)[:2]
    count = len(named_tasks("train", client))
    with pytest.raises(ConfigurationError, match=rf"Expected {count + 1} tasks in train; there are {count}\."):
        named_tasks("train", client, count + 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "can't be read from"), ("[1]", "a task is an object"), ("[]", "Expected at least one task in")],
)
def test_what_is_no_list_of_tasks(client: Client, tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "tasks.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        named_tasks(str(file), client)
