"""Files of tasks for SkyRL-Gym's environments."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openenv.adapters.skyrl.tasks import messages_of, read_tasks
from openenv.core.exceptions import ConfigurationError

ROW = {"prompt": [{"role": "user", "content": "Äpfel?\u2028'''"}], "reward_spec": {"ground_truth": ["4", "5"]}}


def test_each_kind_of_file_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"test": [ROW], "train": []}), encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps([ROW]), encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(json.dumps(ROW, ensure_ascii=False) + "\n\n", encoding="utf-8")
    pq.write_table(pa.Table.from_pylist([ROW]), tmp_path / "d.parquet")
    assert read_tasks(tmp_path / "a.json") == {"test": [ROW], "train": []}
    for name in ("b.json", "c.jsonl", "d.parquet"):
        assert read_tasks(tmp_path / name) == {"train": [ROW]}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", "{", "can't be read"),
        ("b.json", '{"train": 3}', "expected a list of tasks, got 3"),
        ("c.jsonl", '{"prompt": "x"}\n7', r"train\[1\]: expected a task like"),
        ("d.jsonl", '{"question": "x"}', r"train\[0\]: expected a task like"),
        ("e.parquet", "no table", "can't be read"),
        ("f.jsonl", None, "can't be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, name: str, content: str | None, told: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=told):
        read_tasks(tmp_path / name)


def test_a_text_is_what_the_user_says() -> None:
    assert messages_of("Hello.") == [{"role": "user", "content": "Hello."}]


@pytest.mark.parametrize("prompt", [None, 3, {"role": "user", "content": "x"}, ["x"], [{"role": "user"}]])
def test_anything_else_is_no_prompt(prompt: Any) -> None:
    with pytest.raises(ValueError, match="expected a text or messages"):
        messages_of(prompt)
