"""Files of tasks, and the choice of one."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import ConfigurationError, InvalidRequestError, TaskNotFoundError
from openenv.core.tasks import Task, TaskListing, TaskRef, read_tasks
from openenv.core.tasks.listed_tasks import read_resets

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))
TASK = st.dictionaries(st.text(), JSON, max_size=3).map(lambda task: {**task, "prompt": str(task)})
ROW = {"prompt": [{"role": "user", "content": "Äpfel?\u2028'''"}], "answers": ["4", "5"]}


class Listed(TaskListing):
    """Has so many tasks."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts

    @property
    def task_counts(self) -> dict[str, int]:
        return self.counts


def long_texts() -> Any:
    """Make 300 texts of a million letters, which are equal."""
    return pa.array(["x" * 1_000_000]).take(pa.array([0] * 300))


def any_task(task: Task) -> None:
    """Accept it."""


def with_a_prompt(task: Task) -> None:
    if "prompt" not in task:
        raise ValueError("it has no prompt")


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


class TestFiles:
    @given(st.lists(TASK, max_size=5))
    def test_lines_and_lists_are_read_as_they_were_written(
        self, tmp_path_factory: pytest.TempPathFactory, tasks: list[dict[str, Any]]
    ) -> None:
        folder = tmp_path_factory.mktemp("tasks")
        text = "\n".join(json.dumps(task, ensure_ascii=False) for task in tasks) + "\n\n"
        lines, document = written(folder, "tasks.jsonl", text), written(folder, "tasks.json", json.dumps(tasks))
        assert read_tasks(lines, any_task) == read_tasks(document, any_task) == {"train": tasks}

    def test_an_object_has_a_list_for_each_split(self, tmp_path: Path) -> None:
        path = written(tmp_path, "tasks.json", '{"easy": [{"prompt": "a"}], "hard": []}')
        assert read_tasks(path, any_task) == {"easy": [{"prompt": "a"}], "hard": []}

    @pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.parquet"])
    def test_a_column_names_the_split(self, tmp_path: Path, name: str) -> None:
        rows = [{"prompt": "a", "split": "test"}, {"prompt": "b", "split": None}, {"prompt": "c", "split": "test"}]
        path = tmp_path / name
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            path.write_text("\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows))
        splits = read_tasks(path, with_a_prompt)
        assert splits == {"test": [{"prompt": "a"}, {"prompt": "c"}], "train": [{"prompt": "b"}]}
        assert list(splits) == ["train", "test"]
        assert read_resets(path) == rows

    def test_parquet(self, tmp_path: Path) -> None:
        path = tmp_path / "tasks.parquet"
        pq.write_table(pa.Table.from_pylist([ROW]), path)
        assert read_tasks(path, with_a_prompt) == {"train": [ROW]}

    @pytest.mark.parametrize(
        ("name", "text", "told"),
        [
            ("t.jsonl", '{"prompt": "a"}\n\n{"prompt"', "expected a task as JSON in line 3"),
            ("t.jsonl", '{"prompt": "a"}\n["b"]', r"train\[1\]: .*; a task is an object; got \['b'\]"),
            ("t.jsonl", '{"question": "a"}', r"train\[0\]: .*; it has no prompt; got"),
            ("t.jsonl", '{"prompt": "a", "split": 3}', r"jsonl\[0\]: expected a name as its split, got 3"),
            ("t.csv", "prompt,split\na,dev \n", r"csv\[0\]: .* as its split, got 'dev ' with spaces around it"),
            ("t.csv", "prompt,Split\na,dev\n", r"csv\[0\]: expected the column split, got 'Split'; rename it"),
            ("t.json", "7", r"train: expected a list of tasks, got 7"),
            ("t.json", '{"train": {"prompt": "a"}}', "expected a list of tasks, got {'prompt': 'a'}"),
            ("t.json", '{"test": [{"prompt": ""}, "b"]}', r"test\[1\]: .*a task is an object"),
            ("t.json", "", "can't be read from .*t.json"),
            ("t.json", "[" * 10_000, "can't be read from .*t.json"),
            ("t.parquet", "no table", "can't be read from .*t.parquet"),
        ],
    )
    def test_what_is_no_task_is_refused_with_its_place(self, tmp_path: Path, name: str, text: str, told: str) -> None:
        with pytest.raises(ConfigurationError, match=told):
            read_tasks(written(tmp_path, name, text), with_a_prompt)

    @pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
    def test_a_mark_of_the_byte_order_is_no_part_of_it(self, tmp_path: Path, name: str) -> None:
        text = '{"prompt": "a"}' if name == "t.jsonl" else '[{"prompt": "a"}]'
        (tmp_path / name).write_text(text, "utf-8-sig")
        assert read_resets(tmp_path / name) == [{"prompt": "a"}]

    @pytest.mark.parametrize(
        ("make_column", "message"),
        [
            (lambda: pa.nulls(10_100_000, pa.int8()), "at most 10000000 values"),
            (lambda: pa.array([[None] * 10_100_000]), "at most 10000000 values"),
            (long_texts, "at most 268435456 bytes"),
            (lambda: long_texts().dictionary_encode(), "at most 268435456 bytes"),
        ],
        ids=["rows", "values of a row", "texts", "texts of a dictionary"],
    )
    @pytest.mark.level("process")  # what it stands for is made first
    def test_parquet_that_stands_for_more_than_it_has_is_refused(
        self, tmp_path: Path, make_column: Callable[[], Any], message: str
    ) -> None:
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"prompt": make_column()}), path, compression="zstd")
        assert path.stat().st_size < 1_000_000
        with pytest.raises(ConfigurationError, match=message):
            read_resets(path)

    @pytest.mark.parametrize(
        "table",
        [
            pa.table({"prompt": pa.array([10**13], pa.timestamp("s"))}),
            pa.table({"prompt": pa.array([2**62], pa.duration("s"))}),
        ],
        ids=["a time", "a duration"],
    )
    def test_parquet_without_a_form_in_python_is_refused(self, tmp_path: Path, table: pa.Table) -> None:
        pq.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(ConfigurationError, match="can't be read"):
            read_resets(tmp_path / "t.parquet")

    def test_a_file_that_is_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "t.parquet")
        with pytest.raises(ConfigurationError, match="no regular file"):
            read_resets(tmp_path / "t.parquet")

    def test_a_file_that_can_t_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"can't be read from .*nowhere"):
            read_tasks(tmp_path / "nowhere.json", any_task)
        (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9"}')
        with pytest.raises(ConfigurationError, match="can't be read"):
            read_tasks(tmp_path / "latin.jsonl", any_task)


class TestChoice:
    @given(st.integers(1, 7), st.integers(-(2**70), 2**70))
    def test_a_seed_chooses_the_same_task_each_time_and_neighbours_differ(self, count: int, seed: int) -> None:
        tasks = Listed(first=count, second=1)
        chosen = tasks.choose_task(None, None, seed)
        assert chosen == tasks.choose_task("first", None, seed)
        assert (chosen == tasks.choose_task(None, None, seed + 1)) == (count == 1)

    def test_without_a_seed_it_is_any(self) -> None:
        tasks = Listed(train=3)
        assert {tasks.choose_task(None, None, None).index for _ in range(200)} == {0, 1, 2}

    @given(JSON | st.floats(), JSON | st.floats(), JSON | st.floats())
    def test_whatever_a_client_asks_for_is_a_task_or_refused(self, split: Any, index: Any, seed: Any) -> None:
        tasks = Listed(train=2, test=1)
        try:
            chosen = tasks.choose_task(split, index, seed)
        except InvalidRequestError:  # TaskNotFoundError is one
            return
        assert chosen in (TaskRef("train", 0), TaskRef("train", 1), TaskRef("test", 0))
        assert type(chosen.index) is int

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (("test", None, None), "one of the splits train, empty, got 'test'"),
            ((["train"], 0, None), r"one of the splits train, empty, got \['train'\]"),
            (("train", 2, None), "an index from 0 to 1 in the split train, got 2"),
            (("train", -1, None), "an index from 0 to 1"),
            (("train", True, None), "got True"),
            (("train", "0", None), "got '0'"),
            (("empty", None, 1), "of which there is none, in the split empty"),
        ],
    )
    def test_what_there_is_not(self, asked: tuple[Any, Any, Any], told: str) -> None:
        with pytest.raises(TaskNotFoundError, match=told):
            Listed(train=2, empty=0).choose_task(*asked)

    def test_a_seed_is_a_whole_number(self) -> None:
        with pytest.raises(InvalidRequestError, match=r"Expected the seed to be a whole number, got 1\.5"):
            Listed(train=2).choose_task(None, None, 1.5)


class TestListing:
    def test_tasks_are_listed_by_their_places(self) -> None:
        tasks = Listed(train=3, test=0)
        assert (tasks.list_splits(), tasks.num_tasks("train"), tasks.list_tasks("test")) == (["train", "test"], 3, [])
        assert tasks.list_tasks("train") == [{"split": "train", "index": index} for index in range(3)]
        assert [tasks.get_task("train", 1)] == tasks.get_task_range("train", -2, 2)

    @pytest.mark.parametrize("ask", [Listed.list_tasks, Listed.num_tasks, Listed.get_task_range])
    def test_an_unknown_split(self, ask: Any) -> None:
        with pytest.raises(TaskNotFoundError, match=r"one of the splits \(none\), got 'train'"):
            ask(Listed(), "train")
