"""The tiny policy on an environment: it improves where something is to be learned, and the check says where not."""

import sys
from pathlib import Path

import pytest

from openenv.validation.findings import run_check
from openenv.validation.report import CheckResult
from openenv.validation.statistical.learning import LEARNING_CHECK, LearningTarget
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus

DOORS = """
import random
from typing import Literal
from openenv import Action, Environment, Observation, State

class Door(Action):
    way: Literal["left", "right", "up", "down"]

class Shown(Observation):
    text: str = "a door"

class Doors(Environment[Door, Shown, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def __init__(self):
        self._random, self._state = random.Random(), State()

    def reset(self, seed=None):
        self._random = random.Random(seed)
        self._state = State()
        return Shown()

    def step(self, action):
        return Shown(reward=REWARD, done=True)

    @property
    def state(self):
        return self._state
"""


def learned(folder: Path, reward: str, limits: RunLimits) -> CheckResult:
    file = folder / f"doors_of_{folder.name}.py"
    file.write_text(DOORS.replace("REWARD", reward))
    [result] = run_check(LEARNING_CHECK, LearningTarget(str(file), limits))
    return result


@pytest.mark.level("training")
def test_an_environment_that_teaches_is_learned_and_the_training_ends_early(tmp_path: Path) -> None:
    found = learned(tmp_path, 'float(action.way == "up")', RunLimits(learning_steps=150, learning_seeds=1))
    assert found.status is CheckStatus.PASS, found
    [seed] = found.measured["seeds"]
    assert seed["has_improved"]
    assert seed["steps"] < 150
    assert seed["first"] < seed["last"]


@pytest.mark.level("training")
def test_an_environment_whose_rewards_are_drawn_is_not_learned(tmp_path: Path) -> None:
    found = learned(tmp_path, "self._random.random()", RunLimits(learning_steps=22, learning_seeds=1))
    assert found.status is CheckStatus.FAIL
    assert "improved in 0 of 1 trainings of 22 steps" in found.evidence[0]
    assert found.measured["seeds"][0]["steps"] == 22


def test_no_steps_leave_the_training_out(tmp_path: Path) -> None:
    found = learned(tmp_path, "1.0", RunLimits(learning_steps=0))
    assert (found.status, found.evidence) == (CheckStatus.SKIP, ["--learning-steps 0 leaves the training out"])


def test_no_time_leaves_the_training_out(tmp_path: Path) -> None:
    found = learned(tmp_path, "1.0", RunLimits(learning_s=0))
    assert (found.status, found.evidence) == (
        CheckStatus.SKIP,
        ["0 of 0 trainings improved; no time was left for further seeds"],
    )


@pytest.mark.level("training")
def test_an_environment_without_a_reward_leaves_the_training_out(tmp_path: Path) -> None:
    found = learned(tmp_path, "None", RunLimits(learning_steps=2, learning_seeds=1))
    assert found.status is CheckStatus.SKIP, found


def test_without_libraries_the_training_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "openenv.validation.statistical.training", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = learned(tmp_path, "1.0", RunLimits())
    assert found.status is CheckStatus.SKIP
    assert found.evidence[0].startswith("transformers is not installed; to train: pip install")
