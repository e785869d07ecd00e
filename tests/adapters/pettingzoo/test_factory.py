"""Classes made from ids: found or not, and imported by other processes."""

import pickle

import pytest

from openenv.adapters.pettingzoo import environment_class
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError


def test_classes_are_pickled_by_their_names() -> None:
    made = environment_class("classic/tictactoe-v3?seat=player_2")
    types = environment_types(made)
    for each in (made, types.action, types.observation):
        assert pickle.loads(pickle.dumps(each)) is each


def test_the_schema_has_what_the_author_says() -> None:
    made = environment_class("classic/tictactoe_v3")
    action = environment_types(made).action.model_json_schema()
    assert action["title"] == "ClassicTictactoeV3Action"
    assert action["description"].startswith("Tic-tac-toe is a simple turn based strategy game")
    assert "placing either an X or O" in action["properties"]["action"]["description"]


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("classic/tictacto-v3", r"no turn-based game 'classic/tictacto-v3'\. Did you mean classic/tictactoe-v3"),
        ("tictactoe-v3", r"no turn-based game 'tictactoe-v3'"),
        ("classic/tictactoe-v9", r"Did you mean classic/tictactoe-v3"),
        ("?!", r"no turn-based game ''|no turn-based game"),
    ],
)
def test_a_wrong_id_lists_what_is_close(env_id: str, told: str) -> None:
    with pytest.raises((EnvironmentNotFoundError, ConfigurationError), match=f"{told}|to end like"):
        environment_class(env_id)


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("classic/tictactoe-v3?seat=x", "has no seat 'x'; expected one of player_1, player_2"),
        ("classic/tictactoe-v3?seat=1", "has no seat 1; expected one of player_1, player_2"),
        ("classic/tictactoe-v3?color=red", "can't be made: .*unexpected keyword argument 'color'"),
        (
            "classic/tictactoe-v3?opponents=nobody",
            "opponents to be random, none, NAME@URL of a model, or module:name, got 'nobody'",
        ),
    ],
)
def test_what_can_not_be_made_says_why(env_id: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        environment_class(env_id)
