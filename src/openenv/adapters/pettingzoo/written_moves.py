"""Moves that participants write: a position as a text, and a move read from a message."""

import json
import re
from collections.abc import Mapping
from typing import Any

from gymnasium.spaces import Discrete

from openenv.adapters.gymnasium.codecs import codec_for_space
from openenv.adapters.gymnasium.infos import plain_info
from openenv.adapters.gymnasium.models import SpaceValue
from openenv.adapters.gymnasium.space_schemas import describe_space
from openenv.adapters.pettingzoo.opponents import Turn
from openenv.agents import Chat

__all__ = ["written_move"]

_ATTEMPTS = 3
_NUMBER = re.compile(r"-?\d+")


def written_move(chat: Chat, turn: Turn, about: str) -> Any:
    """Show a participant its position, and return the move that it writes; a move that is none may be corrected twice.

    Args:
        chat: The conversation with the participant.
        turn: The position.
        about: Description of the game, for the first message.

    Raises:
        ParticipantFailedError: It fails, or writes no move that can be made.
    """
    begin = "" if chat.messages else f"{about}\n\nYou are {turn.agent}.\n\n"
    text = f"{begin}{_position(turn)}"
    problem = ""
    for _ in range(_ATTEMPTS):
        reply = chat.send(text)
        try:
            return _move(reply.text, turn)
        except ValueError as error:
            problem = str(error)
            text = f"That is no move that can be made: {problem}. Write another one."
    raise chat.failure(f"none of its {_ATTEMPTS} answers is a move; {problem}.")


def _position(turn: Turn) -> str:
    """Describe a position as the client sees it, as JSON, and the moves."""
    seen = turn.observation
    if turn.legal is not None and isinstance(seen, Mapping):
        seen = {name: value for name, value in seen.items() if name != "action_mask"}  # which the moves say
    shown = json.dumps(plain_info({"observation": seen})["observation"], ensure_ascii=False)
    if turn.legal is not None:
        return f"The game: {shown}\n\nYour move is one of {', '.join(map(str, turn.legal))}. Write the number alone."
    return f"The game: {shown}\n\nYour move is {describe_space(turn.space)}. Write it alone, as JSON."


def _move(text: str, turn: Turn) -> Any:
    """Read a move.

    Raises:
        ValueError: There is none, or it can't be made now.
    """
    if isinstance(turn.space, Discrete):
        numbers = _NUMBER.findall(text)
        if not numbers:
            raise ValueError(f"expected a number, got {text!r:.100}")
        value: Any = int(numbers[-1])  # what was considered comes before it
        if turn.legal is not None and value not in turn.legal:
            raise ValueError(f"expected one of {', '.join(map(str, turn.legal))}, got {value}")
    else:
        value = json.loads(text)  # whose error is a ValueError
    return codec_for_space(turn.space).decode(SpaceValue(turn.space)(value))
