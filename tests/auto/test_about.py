"""What an environment is, told from its files, its classes or its server's schemas."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.environment_folders import public_environment, scaffold

from openenv import Action, Environment, Observation, State, find_environment, tool
from openenv.auto.about import About, about_class, about_package, about_schemas, example_fits
from openenv.auto.package import EnvironmentPackage
from openenv.core.environment_types import environment_types


class Up(Action):
    """Go up."""

    far: int = 1


class Say(Action):
    """Say it."""

    text: str


class Climb(Environment[Up | Say, Observation, State]):
    """Climb a hill.

    It is high.
    """

    def reset(self, seed: int | None = None, slope: Literal["flat", "steep"] = "flat", **task: Any) -> Observation:
        """Begin.

        Args:
            seed: Of the hill.
            slope: How hard it is.
        """
        return Observation()

    def step(self, action: Up | Say) -> Observation:
        return Observation()

    @property
    def state(self) -> State:
        return State()


class Toolbox(Environment):
    def reset(self) -> Observation:
        return Observation()

    @tool
    def hammer(self, nails: int = 3) -> str:
        """Hammer.

        Args:
            nails: How many.
        """
        return "done"


def names(parts: list[Any]) -> list[str]:
    return [part.name for part in parts]


def test_a_package_is_told_from_its_manifest_its_classes_and_its_readme() -> None:
    told = about_package(find_environment("wordle"))
    assert (told.name, told.module) == ("wordle", "wordle_env")
    assert told.description.startswith("Find the secret English word")
    assert names(told.actions) == ["WordleAction"]
    assert [field.name for field in told.actions[0].fields] == ["word"]
    assert told.reward.startswith("1.0 for the guess that finds the word")
    assert told.end.startswith("the word was found")
    assert told.example.startswith("from wordle_env import")
    assert "make_player(seed)" in told.player
    assert told.reset is not None
    parameters = {field.name: field for field in told.reset}
    json.dumps(told.as_json())
    assert (parameters["word_length"].default, parameters["word_length"].required) == (5, False)
    assert parameters["word_length"].values == "3 to 9"


def test_each_action_of_a_union_is_told_and_each_parameter_of_a_reset() -> None:
    told = about_class("climb", Climb)
    assert names(told.actions) == ["Up", "Say"]
    assert told.description == "Climb a hill."
    assert told.reset is not None
    assert [(field.name, field.values, field.default) for field in told.reset] == [
        ("seed", "whole number", None),
        ("slope", "flat or steep", "flat"),
    ]
    assert told.reset[1].description == "How hard it is."


def test_tools_are_told_in_the_place_of_actions() -> None:
    told = about_class("toolbox", Toolbox)
    assert (told.actions, names(told.tools)) == ([], ["hammer"])
    assert told.tools[0].description == "Hammer."
    assert told.tools[0].fields[0].description == "How many."


def test_schemas_alone_tell_all_but_the_reset() -> None:
    types = environment_types(Climb)
    schemas = {
        role: model.model_json_schema()
        for role, model in (("action", types.action), ("observation", types.observation), ("state", types.state))
    }
    told = about_schemas("http://somewhere", schemas, [])
    assert names(told.actions) == ["Up", "Say"]
    assert told.reset is None
    assert (told.reward, told.example) == ("", "")


@pytest.mark.parametrize(
    ("example", "fits"),
    [
        ("from catch_env import CatchAction, CatchEnv\nCatchAction(move='left')", True),
        ("from catch_env.models import CatchAction as Action\nAction(move='left')", True),
        ("import openenv\nopenenv.make('catch')", True),
        ("from elsewhere import Anything\nAnything(move='left')", True),
        ("from catch_env import CatchAction, Paddle", False),
        ("from catch_env.paddles import Paddle", False),
        ("from catch_env import CatchAction\nCatchAction(direction='right')", False),
        ("with open('x'):", False),
    ],
)
def test_an_example_fits_where_it_names_what_there_is(example: str, fits: bool) -> None:
    assert example_fits(example, "catch_env") is fits


def test_folders_without_our_keys_can_be_told_of(tmp_path: Path) -> None:
    told = about_package(EnvironmentPackage.from_folder(public_environment(tmp_path)))
    assert names(told.actions) == ["AddAction"]
    assert told.player == ""
    ours = about_package(EnvironmentPackage.from_folder(scaffold(tmp_path, "my_env")))
    assert isinstance(ours, About)
    assert ours.player
