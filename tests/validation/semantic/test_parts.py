"""A reward that is the same for all that is done, in an episode that never ends."""

from typing import ClassVar

import pytest
from tests.validation.museum.exhibit import Exhibit, Player, Shown, Text, findings

from openenv import Environment, State


class Lengths(Environment[Text, Shown, State]):
    """Rewards for the length of an answer; with ``constant`` for any."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    constant: ClassVar[bool] = False

    def __init__(self) -> None:
        self._state = State()

    def reset(self, seed: int | None = None) -> Shown:
        return Shown(text="Write.")

    def step(self, action: Text) -> Shown:
        return Shown(text="read", reward=1.0 if self.constant else len(action.answer) / 10, done=False)

    @property
    def state(self) -> State:
        return self._state


class Constants(Lengths):
    """Rewards for nothing."""

    constant = True


def make_player(seed: int) -> Player:
    return lambda observation: {"answer": "a long answer"}


@pytest.mark.level("process")
def test_a_constant_reward_is_found() -> None:
    found = findings(Exhibit(Constants, "reward_parts", make_player), Constants)
    assert "the reward is 1 in all steps" in found["reward_parts"].evidence[0]


@pytest.mark.level("process")
def test_a_reward_that_depends_on_the_answer_is_not() -> None:
    assert "reward_parts" not in findings(Exhibit(Lengths, "reward_parts", make_player), Lengths)
