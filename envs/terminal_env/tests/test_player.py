import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from openenv.core.tasks import TaskRef
from terminal_env import RunAction, SubmitAction, TerminalAction, TerminalObservation
from terminal_env.models import DIFFICULTIES, FAMILIES
from terminal_env.player import make_player, plan
from terminal_env.server.tasks import GeneratedTerminalTasks
from terminal_env.server.terminal_environment import TerminalEnvironment

pytestmark = pytest.mark.needs("sandbox")

Player = Callable[[TerminalObservation], TerminalAction]
COMMANDS = (
    "ls",
    "cat *",
    "cd project",
    "git log",
    "rm -rf inbox",
    "echo 7 > answer.txt",
    "echo auth 7 > answer.txt",
    "python3 report.py orders.csv > answer.txt",
    "sort sales.csv > totals.csv",
    "mkdir -p sorted/txt && mv inbox/*.txt sorted/txt",
    "sed -i s/true/false/ config/app.json",
    "rm -f inbox/*.tmp",
)


def make_random_player(seed: int) -> Player:
    chance = Random(seed)
    actions: list[TerminalAction] = [RunAction(command=command) for command in chance.sample(COMMANDS, 5)]
    actions.append(SubmitAction())
    return lambda observation: actions.pop(0)


def score(environment: TerminalEnvironment, player: Player, **task: object) -> float:
    observation = environment.reset(**task)  # type: ignore[arg-type]  # checked there
    while not observation.done:
        observation = environment.step(player(observation))
    assert observation.reward is not None
    return float(observation.reward)


def test_the_player_scores_what_the_readme_says(environment: TerminalEnvironment) -> None:
    # Each kind of task once, and some more; 200 episodes take longer than they may here.
    for family in FAMILIES:
        for difficulty in DIFFICULTIES:
            task = {"seed": 700, "family": family, "difficulty": difficulty}
            assert score(environment, make_player(1), **task) == 1.0, task
    assert mean(score(environment, make_player(seed), seed=seed) for seed in range(12)) == 1.0
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward\s+(\d+\.\d+)[^.]*; .*?random\s+has (\d+\.\d+)", readme, re.DOTALL)
    assert stated is not None
    assert stated[1] == "1.00"
    random = mean(score(environment, make_random_player(seed), seed=seed) for seed in range(8))
    assert abs(random - float(stated[2])) < 0.15


def test_who_only_submits_gets_nothing(environment: TerminalEnvironment) -> None:
    for family in FAMILIES:
        for difficulty in DIFFICULTIES:
            task = {"seed": 701, "family": family, "difficulty": difficulty}
            assert score(environment, lambda _: SubmitAction(), **task) == 0.0, task


def test_every_task_is_understood_and_others_are_left_alone() -> None:
    tasks = GeneratedTerminalTasks()
    for index in range(200):
        assert plan(tasks.make(TaskRef("train", index), None, None).prompt)
    assert plan("Do something else.") == []
    assert make_player(1)(TerminalObservation(prompt="Do something else.")) == SubmitAction()
