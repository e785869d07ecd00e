import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import pytest

from code_feedback_env import CodeAction, CodeObservation
from code_feedback_env.player import make_player
from code_feedback_env.server.code_feedback_environment import CodeFeedbackEnvironment
from code_feedback_env.server.grading import is_same
from code_feedback_env.server.tasks import GeneratedCodeTasks
from openenv.core.tasks import TaskRef

pytestmark = pytest.mark.needs("sandbox")

Player = Callable[[CodeObservation], CodeAction]
GUESSES = (
    "0",
    "1",
    "-1",
    "True",
    "''",
    "[]",
    "args[0]",
    "len(args[0])",
    "sum(args[0])",
    "args[0][::-1]",
    "sorted(args[0])",
)


def score(seed: int, player: Player) -> float:
    environment = CodeFeedbackEnvironment()
    observation, total = environment.reset(seed=seed), 0.0
    while not observation.done:
        observation = environment.step(player(observation))
        total += float(observation.reward or 0)
    return total


def share_passed_here(index: int) -> float:
    """The share of a task's tests that the player's first code passes, without a sandbox: it is our own code."""
    task = GeneratedCodeTasks().make(TaskRef("train", index), None)
    action = make_player(0)(CodeObservation(status="ok", prompt=task.text, function_name=task.function_name))
    namespace: dict[str, Any] = {}
    exec(action.code, namespace)
    function = namespace[action.function_name]
    return mean(is_same(_as_lists(function(*test.arguments)), test.expected) for test in task.tests)


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def make_random_player(seed: int) -> Player:
    chance = Random(seed)
    return lambda observation: CodeAction(
        code=f"def {observation.function_name}(*args):\n    return {chance.choice(GUESSES)}\n",
        function_name=observation.function_name or "f",
    )


def test_the_player_scores_what_the_readme_says_and_a_random_one_less() -> None:
    # Through a sandbox, 200 episodes take longer than they may here.
    assert mean(score(seed, make_player(seed)) for seed in range(6)) == 1.0
    assert mean(share_passed_here(index) for index in range(200)) == 1.0
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    stated = re.search(r"mean reward (\d+\.\d+)[^.]*; .*?random\s+has (\d+\.\d+)", readme, re.DOTALL)
    assert stated is not None
    assert stated[1] == "1.00"
    assert abs(mean(score(seed, make_random_player(seed)) for seed in range(8)) - float(stated[2])) < 0.2


def test_a_task_of_somebody_elses_is_answered_too() -> None:
    action = make_player(1)(CodeObservation(status="ok", prompt="Do something else.", function_name="other"))
    assert action.function_name == "other"
    assert make_player(1)(CodeObservation(status="ok")).function_name == "answer"
