"""How the players move whom the client does not play."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Protocol

from openenv.core.exceptions import InvalidRequestError
from openenv.core.seeding import rng

from ..models import Opponents, TextArenaAction, TextArenaObservation
from ..player import SCRIPTED_GAMES, make_player
from .game import Game
from .moves import known_moves


class Opponent(Protocol):
    """Plays one seat of a game."""

    def move(self, game: Game, observation: TextArenaObservation) -> str:
        """Choose what to write.

        Args:
            game: The game, in which this seat is to move. It is not changed.
            observation: What the seat sees.

        Returns:
            The text.
        """
        ...


class RandomOpponent:
    """Makes any legal move, each with equal chance.

    A few games have positions without one, of which their rules say nothing. There it writes a move that is refused,
    and loses by that.

    Args:
        moves: All that may be a move.
        random: The source of its choices.
    """

    def __init__(self, moves: tuple[str, ...], random: Random) -> None:
        self._moves = moves
        self._random = random

    def move(self, game: Game, observation: TextArenaObservation) -> str:
        """Try moves in a random order on a copy of the game, and return the first legal one."""
        order = self._random.sample(self._moves, len(self._moves))
        return game.first_legal(order) or order[0]


class ScriptedOpponent:
    """Plays as the environment's own player does.

    Args:
        player: That player.
    """

    def __init__(self, player: Callable[[TextArenaObservation], TextArenaAction]) -> None:
        self._player = player

    def move(self, game: Game, observation: TextArenaObservation) -> str:
        """Ask the player."""
        return self._player(observation).message


def seat_opponents(kind: Opponents, game: Game, seat: int, seed: int | str) -> dict[int, Opponent]:
    """Give every seat but one to an opponent.

    Args:
        kind: ``random`` or ``scripted``.
        game: The game.
        seat: The client's.
        seed: Of what the opponents do by chance.

    Returns:
        The opponents by their seats.

    Raises:
        InvalidRequestError: There is no such seat, or there are no such opponents for this game.
    """
    if not 0 <= seat < game.num_players:
        raise InvalidRequestError(
            f"player_id is {seat}; expected 0 to {game.num_players - 1}, as in {game.env_id} play {game.num_players}."
        )
    others = [other for other in range(game.num_players) if other != seat]
    return dict(zip(others, _opponents(kind, game, seed), strict=False)) if others else {}


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
