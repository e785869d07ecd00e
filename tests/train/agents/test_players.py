"""Players without a model."""

from enum import IntEnum
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from openenv.adapters.text import ActionText
from openenv.core.env_server.types import Action
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.actions import action_model
from openenv.train.agents.players import RandomPlayer


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


def test_every_kind_of_action_is_chosen() -> None:
    player = RandomPlayer(ActionText(cast("type[BaseModel]", action_model(Say | Bet))), 1)
    assert {type(player({})).__name__ for _ in range(20)} == {"Say", "Bet"}
