"""Moves in words, which the clients of the numbered games may send as numbers."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import model_validator

from openenv.adapters.openspiel.models import OpenSpielAction
from openenv.core.env_server.types import Action

__all__ = ["WordAction"]

_NUMBERED = frozenset(OpenSpielAction.model_fields) - frozenset(Action.model_fields)


class WordAction(Action):
    """A move that is one of a few words.

    A subclass declares ``move`` as a ``Literal`` of the words, in the order of OpenSpiel's action ids. The fields of an
    ``OpenSpielAction`` are accepted as well: its ``action_id`` is the number of the word.

    Attributes:
        move: The word.
    """

    move: str

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """Return the words, in the order of OpenSpiel's action ids."""
        return get_args(cls.model_fields["move"].annotation)

    @property
    def action_id(self) -> int:
        """OpenSpiel's number of the move."""
        return self.words().index(self.move)

    @model_validator(mode="before")
    @classmethod
    def _read_number(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping) or "move" in fields or "action_id" not in fields:
            return fields
        number, words = fields["action_id"], cls.words()
        if type(number) is not int or not 0 <= number < len(words):
            raise ValueError(f"expected an action_id from 0 to {len(words) - 1} ({', '.join(words)}), got {number!r}")
        beside = {name: value for name, value in fields.items() if name not in _NUMBERED}
        return {**beside, "move": words[number]}
