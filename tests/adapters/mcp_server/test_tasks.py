"""Files of tasks."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.adapters.mcp_server.tasks import Tasks, read_tasks
from openenv.core.exceptions import ConfigurationError, TaskNotFoundError

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))
TASK = st.dictionaries(st.text(), JSON, max_size=3).map(lambda task: {**task, "prompt": str(task)})


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@given(st.lists(TASK, max_size=5))
def test_lines_and_lists_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("tasks")
    lines = written(folder, "tasks.jsonl", "\n".join(json.dumps(task, ensure_ascii=False) for task in tasks) + "\n\n")
    document = written(folder, "tasks.json", json.dumps(tasks))
    assert read_tasks(lines).of("train") == read_tasks(document).of("train") == tasks


def test_an_object_has_a_list_for_each_split(tmp_path: Path) -> None:
    path = written(tmp_path, "tasks.json", '{"easy": [{"prompt": "a"}], "hard": []}')
    tasks = read_tasks(path)
    assert tasks.splits == ["easy", "hard"]
    assert tasks.choose(None, None, 7) == {"prompt": "a"}
    with pytest.raises(TaskNotFoundError):
        tasks.choose("hard", None, None)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.jsonl", '{"prompt": "a"}\n{"prompt"', "Expected JSON in .*t.jsonl"),
        ("t.jsonl", '{"prompt": "a"}\n\n["b"]', r"t.jsonl:3: expected a task like .*got \['b'\]"),
        ("t.jsonl", '{"prompt": 7}', "t.jsonl:1: expected a task"),
        ("t.json", "7", r"'train' is 7"),
        ("t.json", '{"train": {"prompt": "a"}}', "a list for each split"),
        ("t.json", '{"test": [{}, "b"]}', r"test\[1\]: expected a task"),
        ("t.json", "", "Expected JSON"),
    ],
)
def test_what_is_no_task_is_refused_with_its_place(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        read_tasks(written(tmp_path, name, text))


def test_a_file_that_can_t_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"can't be read from .*nowhere"):
        read_tasks(tmp_path / "nowhere.json")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9"}')
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_tasks(tmp_path / "latin.jsonl")


@given(st.integers(1, 7), st.integers(-(2**70), 2**70))
def test_a_seed_chooses_the_same_task_each_time_and_neighbours_differ(count: int, seed: int) -> None:
    tasks = Tasks({"train": [{"prompt": str(number)} for number in range(count)]})
    chosen = tasks.choose(None, None, seed)
    assert chosen == tasks.choose("train", None, seed)
    assert (chosen == tasks.choose(None, None, seed + 1)) == (count == 1)
