"""Opponents: how the players move that the client does not play."""

from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Protocol

from openenv.agents import Chat, find_participant
from openenv.core.exceptions import InvalidRequestError
from openenv.core.seeding import rng

from ..models import Opponents, TextArenaAction, TextArenaObservation
from ..player import SCRIPTED_GAMES, make_player
from .game import Game
from .moves import known_moves


class Opponent(Protocol):
    """Policy of one player of a game."""

    def move(self, game: Game, observation: TextArenaObservation) -> str:
        """Choose a message.

        Args:
            game: The game, in which this player is to move. It is not changed.
            observation: The player's observation.

        Returns:
            The message.
        """
        ...


class RandomOpponent:
    """Opponent that makes any legal move, each with equal chance.

    A few games have positions without a legal move, which their rules do not treat. There the opponent sends an
    illegal move, and loses.

    Args:
        moves: Every text that can be a move of the game.
        random: Generator of random numbers.
    """

    def __init__(self, moves: tuple[str, ...], random: Random) -> None:
        self._moves = moves
        self._random = random

    def move(self, game: Game, observation: TextArenaObservation) -> str:
        """Try moves in a random order on a copy of the game, and return the first legal one."""
        order = self._random.sample(self._moves, len(self._moves))
        return game.first_legal(order) or order[0]


class ScriptedOpponent:
    """Opponent that plays as the environment's scripted player does.

    Args:
        player: The scripted player: the action for an observation.
    """

    def __init__(self, player: Callable[[TextArenaObservation], TextArenaAction]) -> None:
        self._player = player

    def move(self, game: Game, observation: TextArenaObservation) -> str:
        """Return the scripted player's message."""
        return self._player(observation).message


class ParticipantOpponent:
    """Opponent that a model plays, or a script.

    Args:
        chat: The conversation with it, which has been used by no other game.
    """

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    def move(self, game: Game, observation: TextArenaObservation) -> str:
        """Return the participant's answer to what its player has not seen yet.

        Raises:
            ParticipantFailedError: There is none.
        """
        return self.chat.send(observation.text or "It is your turn.").text


_participant = cache(find_participant)  # all games of a server share the connections of its model


def make_opponents(
    kind: Opponents, game: Game, player_id: int, seed: int | str, participant: str | None = None
) -> dict[int, Opponent]:
    """Make an opponent for every player but the client's.

    Args:
        kind: ``random``, ``scripted`` or ``participant``.
        game: The game.
        player_id: The client's player.
        seed: Seed of the opponents' random choices.
        participant: The server's participant, as `find_participant` has it.

    Returns:
        The opponents, by the ids of their players.

    Raises:
        InvalidRequestError: The game has no such player, or there are no such opponents for it.
    """
    if not 0 <= player_id < game.num_players:
        raise InvalidRequestError(
            f"Expected a player_id from 0 to {game.num_players - 1} in {game.env_id}, got {player_id}."
        )
    others = [other for other in range(game.num_players) if other != player_id]
    if kind == "participant":
        return {other: _talking(participant, other) for other in others}
    return dict(zip(others, _opponents(kind, game, seed), strict=False)) if others else {}


def _talking(participant: str | None, player: int) -> Opponent:
    if participant is None:
        raise InvalidRequestError(
            "This server has no participant for opponents='participant'; start it with the variable "
            "TEXTARENA_PARTICIPANT, as in Qwen/Qwen3-8B@http://localhost:8000."
        )
    return ParticipantOpponent(Chat(_participant(participant), f"player_{player}"))


def _opponents(kind: Opponents, game: Game, seed: int | str) -> Iterator[Opponent]:
    permitted = known_moves().keys() if kind == "random" else SCRIPTED_GAMES
    if game.name not in permitted:
        raise InvalidRequestError(
            f"There are no {kind} opponents for {game.env_id}; there are for {', '.join(sorted(permitted))}. "
            "With opponents='self' the client plays all sides."
        )
    for number in range(game.num_players):
        if kind == "random":
            yield RandomOpponent(known_moves()[game.name], rng(seed, f"opponent {number}"))
        else:
            yield ScriptedOpponent(make_player(f"{seed}/opponent {number}"))
