from typing import Literal

import pytest
from pydantic import ValidationError

from openenv.adapters.openspiel import OpenSpielAction
from openenv.adapters.openspiel.words import WordAction


class Jump(WordAction):
    move: Literal["hop", "leap", "vault"]


@pytest.mark.parametrize(("word", "number"), [("hop", 0), ("leap", 1), ("vault", 2)])
def test_a_word_and_its_number_are_the_same_move(word: str, number: int) -> None:
    action = Jump.model_validate({"move": word})
    assert (action.move, action.action_id) == (word, number)
    assert Jump.model_validate({"action_id": number}) == action
    sent = OpenSpielAction(action_id=number, game_name="2048", game_params={"a": 1}).model_dump()
    assert Jump.model_validate(sent) == action


def test_metadata_is_kept_beside_a_number() -> None:
    assert Jump.model_validate({"action_id": 0, "metadata": {"a": 1}}).metadata == {"a": 1}


@pytest.mark.parametrize("number", [3, -1, 1.0, "1", True, None])
def test_a_wrong_number_is_answered_with_the_words(number: object) -> None:
    with pytest.raises(ValidationError, match=r"expected an action_id from 0 to 2 \(hop, leap, vault\), got"):
        Jump.model_validate({"action_id": number})


@pytest.mark.parametrize(
    "fields",
    [{}, {"move": "HOP"}, {"move": 0}, {"move": "hop", "action_id": 0}, {"action_id": 0, "hint": 1}, ["hop"], None],
)
def test_nothing_else_is_a_move(fields: object) -> None:
    with pytest.raises(ValidationError):
        Jump.model_validate(fields)


def test_the_schema_shows_words_alone() -> None:
    schema = Jump.model_json_schema()
    assert set(schema["properties"]) == {"metadata", "move"}
    assert schema["properties"]["move"]["enum"] == list(Jump.words()) == ["hop", "leap", "vault"]
