import json
from pathlib import Path
from typing import Any

import pytest

from openenv.core.exceptions import ConfigurationError, InvalidRequestError
from openenv.core.tasks import TaskRef
from terminal_env.models import DIFFICULTIES, FAMILIES
from terminal_env.server.task_format import ProgramCheck
from terminal_env.server.tasks import GeneratedTerminalTasks, TerminalTaskFile

TASK: dict[str, Any] = {
    "prompt": "Write 42 to answer.txt.",
    "checks": [{"type": "file", "name": "answer", "path": "answer.txt", "text": "42"}],
}


def test_a_place_has_one_task_and_others_have_others() -> None:
    tasks = GeneratedTerminalTasks()
    made = [tasks.make(TaskRef("train", index), None, None) for index in range(100)]
    assert [tasks.make(TaskRef("train", index), None, None) for index in range(100)] == made
    assert {(task.family, task.difficulty) for task in made} == {(f, d) for f in FAMILIES for d in DIFFICULTIES}
    assert tasks.make(TaskRef("test", 0), None, None) != made[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_file_that_the_agent_gets_tells_what_is_right(family: str) -> None:
    for index in range(20):
        for difficulty in DIFFICULTIES:
            task = GeneratedTerminalTasks().make(TaskRef("train", index), family, difficulty)
            assert (task.family, task.difficulty) == (family, difficulty)
            told = "\n".join([task.prompt, task.setup, *task.files.values()])
            for check in task.checks:
                if isinstance(check, ProgramCheck):
                    assert all(text not in task.files.values() for text in check.files.values())
                elif check.type == "file" and "\n" in check.text:
                    assert check.text not in told


def test_ones_own_tasks_with_a_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "box" / "deep").mkdir(parents=True)
    (tmp_path / "box" / "deep" / "a.txt").write_text("hello")
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK | {"folder": "box", "files": {"b.txt": "b"}}) + "\n")
    tasks = TerminalTaskFile(tmp_path / "tasks.jsonl")
    task = tasks.make(TaskRef("train", 0), None, None)
    assert task.files == {"b.txt": "b", "deep/a.txt": "hello"}
    assert tasks.list_tasks("train") == [{"split": "train", "index": 0}]
    with pytest.raises(InvalidRequestError):
        tasks.make(TaskRef("train", 0), "logs", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": ""}, "prompt: String should have at least 1 character"),
        ({"prompt": None}, "prompt: Field required"),
        ({"checks": []}, "at least one check that is not 'required'"),
        ({"checks": [TASK["checks"][0] | {"required": True}]}, "at least one check that is not 'required'"),
        ({"checks": TASK["checks"] * 2}, "checks with different names"),
        ({"checks": [{"type": "magic", "name": "a"}]}, "does not match any of the expected tags"),
        ({"files": {"a": 1}}, "files.a: Input should be a valid string"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"folder": 5}, "'folder' is the name of a folder"),
        ({"folder": "none"}, "Expected 'none' as a folder beside the tasks"),
        ({"folder": ".."}, r"Expected '\.\.' as a folder beside the tasks"),
    ],
)
def test_what_is_no_task_is_said_at_the_start(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([TASK, TASK | change]))
    with pytest.raises(ConfigurationError, match=message):
        TerminalTaskFile(file)


def test_a_file_that_is_no_text_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "a.bin").write_bytes(b"\xff")
    (tmp_path / "tasks.json").write_text(json.dumps([TASK | {"folder": "box"}]))
    with pytest.raises(ConfigurationError, match="Expected a text in UTF-8"):
        TerminalTaskFile(tmp_path / "tasks.json")
