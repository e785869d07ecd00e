"""Players without a model."""

import random
from enum import IntEnum
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tests.support.environments.training import CRASHING_SEEDS, DONE_AT_RESET_SEEDS, FAILING_RESET_SEEDS, seeded

from openenv.adapters.text import ActionText
from openenv.core.env_server.types import Action
from openenv.core.exceptions import ConfigurationError, ServerExecutionError
from openenv.core.wire.actions import action_model
from openenv.train.agents.players import RandomPlayer
from openenv.train.agents.recording import play_tasks
from openenv.train.spec.sessions import Sessions


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    x: int
    y: float = Field(ge=-1, le=1)


class Move(Action):
    direction: Literal["left", "right"]
    level: Level


class Say(Action):
    message: str


class Everything(Action):
    flag: bool
    whole: int = Field(ge=5, le=7)
    part: float
    names: list[str]
    either: int | str | None
    fixed: Literal["only"]
    free: Any


class Bet(Action):
    amount: int


class Code(Action):
    code: str = Field(pattern=r"^[A-Z]{4}\d{4}$")


@pytest.mark.parametrize("action", [Move, Say, Everything, Bet, action_model(Say | Bet)])
@given(seed=st.integers())
def test_random_actions_are_legal(action: type[BaseModel], seed: int) -> None:
    for actions in (ActionText(action), ActionText(action.model_json_schema())):
        player = RandomPlayer(actions, seed, words=["red", "blue"])
        for _ in range(3):
            chosen = player({})
            action.model_validate(chosen.model_dump() if isinstance(chosen, BaseModel) else chosen)


def test_the_same_seed_chooses_alike() -> None:
    def choices(seed: int) -> list[Any]:
        player = RandomPlayer(ActionText(Move), seed)
        return [player({}) for _ in range(20)]

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)
    assert len({choice.model_dump_json() for choice in choices(1)}) == 4


def test_texts_are_made_of_the_words() -> None:
    player = RandomPlayer(ActionText(Say), 1, words=["red", "blue"])
    said = {player({}).message for _ in range(100)}  # type: ignore[union-attr]
    assert {"red", "blue", "red blue"} < said
    assert all(set(text.split()) <= {"red", "blue"} for text in said)


def test_an_observation_may_list_the_legal_actions() -> None:
    player = RandomPlayer(ActionText(Bet), 1)
    assert {player({"legal_actions": [17, 23]}).amount for _ in range(30)} == {17, 23}  # type: ignore[union-attr]
    assert player({"legal_actions": []})
    assert player({"legal_actions": ["no number"]})
    assert RandomPlayer(ActionText(Move), 1)({"legal_actions": [17]})


def test_a_schema_that_asks_for_more_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"No legal action in 100 random ones; the action's schema \(code\)"):
        RandomPlayer(ActionText(Code), 1)({})


def always_up(_: Any) -> dict[str, str]:
    return {"move": "up"}


def sleepy(_: Any) -> dict[str, str]:
    return {"move": "fall asleep"}


def test_episodes_are_played_to_their_ends(stairs: Sessions) -> None:
    episodes = play_tasks(stairs, [always_up] * 4, seeded([0, 1, 2, 3]), max_turns=3)
    assert [len(episode.turns) for episode in episodes] == [1, 2, 3, 3]
    assert [episode.done for episode in episodes] == [True, True, True, False]
    assert [episode.reward for episode in episodes] == [0.25, 0.75, 1.5, 1.5]
    assert [turn.observation for turn in episodes[1].turns] == ["step of 2", "step and of 2"]
    assert {turn.action for episode in episodes for turn in episode.turns} == {"up"}


def test_refused_actions_are_noted(stairs: Sessions) -> None:
    (episode,) = play_tasks(stairs, [sleepy], seeded([0]), max_turns=2)
    assert [turn.problem for turn in episode.turns] == ["No sleeping on the stairs."] * 2
    assert episode.illegal_actions == 2


def test_one_failure_is_noted_and_most_failing_is_raised(stairs: Sessions) -> None:
    episodes = play_tasks(stairs, [always_up] * 3, seeded([3, 3, CRASHING_SEEDS + 3]), max_turns=9)
    assert [episode.error is None for episode in episodes] == [True, True, False]
    with pytest.raises(ServerExecutionError):
        play_tasks(stairs, [always_up] * 3, seeded([3, CRASHING_SEEDS + 3, CRASHING_SEEDS + 3]), max_turns=9)


def test_a_reset_that_fails_is_one_failed_episode(stairs: Sessions) -> None:
    failed, *others = play_tasks(stairs, [always_up] * 3, seeded([FAILING_RESET_SEEDS, 1, 2]), max_turns=9)
    assert isinstance(failed.error, ServerExecutionError)
    assert [episode.done for episode in others] == [True, True]


def test_an_episode_that_is_over_at_once_counts_and_is_not_stepped(stairs: Sessions) -> None:
    over, played, also_over = play_tasks(
        stairs, [always_up] * 3, seeded([DONE_AT_RESET_SEEDS, 0, DONE_AT_RESET_SEEDS + 1]), max_turns=9
    )
    for episode in (over, also_over):
        assert (episode.done, episode.error, episode.turns, episode.reward) == (True, None, [], 0.0)
    assert len(played.turns) == 1


def test_every_kind_of_action_is_chosen() -> None:
    player = RandomPlayer(ActionText(cast("type[BaseModel]", action_model(Say | Bet))), 1)
    assert {type(player({})).__name__ for _ in range(20)} == {"Say", "Bet"}


def test_random_players_play(stairs: Sessions) -> None:
    actions = ActionText(stairs.action)
    seeds = random.Random(1).sample(range(100), 12)
    players = [RandomPlayer(actions, seed) for seed in seeds]
    episodes = play_tasks(stairs, players, seeded(seeds), max_turns=50)
    assert all(episode.done for episode in episodes)
    assert {turn.action for episode in episodes for turn in episode.turns} == {"up", "wait", "fall asleep"}
