"""An environment's tasks: what resets are passed for prompts and rows, and the conversations that they begin."""

import logging
from typing import Any

import pytest
from datasets import Dataset  # type: ignore[import-untyped]
from tests.support.environments.common import CounterEnvironment
from tests.support.servers import RunningServer

from openenv.auto.target import Target
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError
from openenv.train.rollout.sessions import Sessions
from openenv.train.tasks.task_dataset import numbered, unnumbered
from openenv.train.trl.spec_tasks import SpecTasks

NOWHERE = Target.of("http://127.0.0.1:9")


def test_a_prompt_and_its_row_have_one_task() -> None:
    tasks = [{"level": number, "map": {"rows": [number]}} for number in range(5)]
    spec_tasks = SpecTasks(target=NOWHERE, tasks=tasks, reset={"difficulty": "hard"}, instructions="")
    for number in (3, 0):
        prompt = numbered(spec_tasks.prompt(number), number, "stairs")
        assert spec_tasks.task_of(prompt) == {**tasks[number], "difficulty": "hard"}
        assert spec_tasks.task_of_row({"prompt": prompt, "level": 9}) == spec_tasks.task_of(prompt)


def test_a_row_of_a_foreign_dataset_is_a_task_without_the_trainer_s_columns() -> None:
    spec_tasks = SpecTasks(target=NOWHERE, reset={"difficulty": "hard"})
    row = {"prompt": [{"role": "user", "content": ""}], "level": 2, "seed": None, "image": "x", "solution": object()}
    assert spec_tasks.task_of_row(row) == {"difficulty": "hard", "level": 2}
    assert spec_tasks.task_of_row({"seed": 3}) == {"difficulty": "hard", "seed": 3}


def test_a_prompt_is_the_instructions_and_no_server_is_needed() -> None:
    spec_tasks = SpecTasks(target=NOWHERE, num_tasks=1, system_prompt="Be quick.", instructions="Go.")
    prompt = numbered(spec_tasks.prompt(0), 0)
    assert prompt[-1]["task"] == 0
    assert unnumbered(prompt) == [
        {"role": "system", "content": "Be quick."},
        {"role": "user", "content": "Go.\n\n"},
    ]


def test_a_prompt_is_the_goal_unless_there_are_instructions(stairs_server: RunningServer) -> None:
    served = SpecTasks(target=Target.of(stairs_server.url), num_tasks=1)
    (message,) = served.prompt(0)
    assert message["content"].startswith("You act in the environment StairsEnvironment. ")
    served.close()
    packaged = SpecTasks(target=Target.of("catch"), num_tasks=1)
    (message,) = packaged.prompt(0)
    assert message["content"].startswith("You act in the environment catch. ")
    assert packaged._sessions is None, "a package needs no server for it"
    assert SpecTasks(target=NOWHERE, instructions="").prompt(0) == [{"role": "user", "content": ""}]


@pytest.mark.parametrize(
    ("tasks", "refused"),
    [
        ([{"seed": 1}, {"sead": 1}], True),
        (iter([{"seed": 1}, {"sead": 1}]), False),
        (Dataset.from_list([{"seed": 1, "sead": 1}]), False),
    ],
    ids=["list", "iterator", "dataset"],
)
def test_a_wrong_name_is_refused_in_a_list_alone(tasks: Any, refused: bool) -> None:
    app = create_fastapi_app(CounterEnvironment, max_concurrent_envs=4)
    with RunningServer(app) as server, Sessions.open(server.url, 1) as sessions:
        spec_tasks = SpecTasks(target=sessions, tasks=tasks)
        if refused:
            wanted = r"tasks=\.\.\.\).*reset does not take 'sead' \(did you mean 'seed'\?\)"
            with pytest.raises(ConfigurationError, match=wanted):
                spec_tasks.parameters_of({"seed": 1})
        else:
            assert spec_tasks.parameters_of({"seed": 1, "answer": "42"}) == {"seed": 1}


def test_what_every_reset_is_passed_is_checked_by_name() -> None:
    app = create_fastapi_app(CounterEnvironment, max_concurrent_envs=4)
    refused = pytest.raises(ConfigurationError, match="reset does not take 'sead'")
    with RunningServer(app) as server, Sessions.open(server.url, 1) as sessions, refused:
        SpecTasks(target=sessions, reset={"sead": 1}).parameters_of({"seed": 1})


def test_a_text_that_no_model_is_shown_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    hidden = {"metadata": {"text": "You stand before stairs, of which you see the first two steps."}}
    quiet, spec_tasks = SpecTasks(target=NOWHERE, warns_of_hidden_text=False), SpecTasks(target=NOWHERE)
    with caplog.at_level(logging.WARNING):
        for each in (quiet, spec_tasks, spec_tasks):
            each.warn_of_hidden_text(hidden)
    assert len(caplog.records) == 1
    assert caplog.records[0].message.startswith("127.0.0.1: ")
