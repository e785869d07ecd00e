import json
from pathlib import Path
from typing import Any

import pytest

from code_feedback_env.server.tasks import SHOWN_TESTS, TESTS, CodeTaskFile, GeneratedCodeTasks, task_source
from openenv.core.exceptions import ConfigurationError, InvalidRequestError, TaskNotFoundError
from openenv.core.tasks import TaskRef

TASK = {
    "prompt": "Write a function twice(x) that returns 2 * x.",
    "function_name": "twice",
    "tests": [{"arguments": [1], "expected": 2, "shown": True}, {"arguments": ["a"], "expected": "aa"}],
}


def test_a_place_has_one_task_and_others_have_others() -> None:
    tasks = GeneratedCodeTasks()
    made = [tasks.make(TaskRef("train", index), None) for index in range(60)]
    assert [tasks.make(TaskRef("train", index), None) for index in range(60)] == made
    assert len({task.prompt for task in made}) > 40
    assert tasks.make(TaskRef("test", 0), None) != made[0]
    for task in made:
        assert len(task.tests) == TESTS
        assert sum(test.shown for test in task.tests) == SHOWN_TESTS
        assert task.text.count(" returns ") >= SHOWN_TESTS


def test_a_difficulty_can_be_asked_for() -> None:
    tasks = GeneratedCodeTasks()
    names = {
        difficulty: {tasks.make(TaskRef("train", index), difficulty).function_name for index in range(60)}
        for difficulty in ("easy", "medium", "hard")
    }
    assert names["easy"].isdisjoint(names["medium"] | names["hard"])
    assert "spiral" in names["hard"]


def test_ones_own_tasks(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(TASK) + "\n")
    tasks = CodeTaskFile(file)
    assert tasks.task_counts == {"train": 1}
    task = tasks.make(TaskRef("train", 0), None)
    assert task.text.split("\n") == [TASK["prompt"], "For example:", "twice(1) returns 2"]
    assert [test.expected for test in task.tests] == [2, "aa"]
    # Who lists tasks may be the agent.
    assert tasks.list_tasks("train") == [{"split": "train", "index": 0}]
    with pytest.raises(InvalidRequestError):
        tasks.make(TaskRef("train", 0), "easy")
    with pytest.raises(TaskNotFoundError):
        tasks.choose_task("train", 1, None)
    assert task_source(str(file)) is task_source(str(file))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": ""}, "'prompt' is a text"),
        ({"function_name": "two words"}, "'function_name' is a name in Python"),
        ({"function_name": "def"}, "'function_name' is a name in Python"),
        ({"tests": []}, "at least one test"),
        ({"tests": [{"arguments": 1, "expected": 2}]}, "'arguments', a list"),
        ({"tests": [{"arguments": []}]}, "and 'expected'"),
        ({"tests": [{"arguments": [], "expected": None, "shown": 1}]}, "'shown' is true or false"),
    ],
)
def test_what_is_no_task_is_said_at_the_start(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([TASK, TASK | change]))
    with pytest.raises(ConfigurationError, match=message):
        CodeTaskFile(file)
