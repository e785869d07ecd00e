"""Strategies for some games, in their default size, from the numbers of an observation alone.

Blackjack and 2048 have separate environments, with players that play them well.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from .models import OpenSpielObservation

Strategy = Callable[[OpenSpielObservation], int]
"""Chooses an action's id."""


def catch(observation: OpenSpielObservation) -> int:
    """Move the paddle towards the ball.

    Args:
        observation: The numbers are the board, row by row; the paddle is in the lowest.

    Returns:
        0 for left, 1 to stay, 2 for right.
    """
    *air, paddle = _rows(observation.info_state, columns := 5)
    ball = max(range(columns), key=lambda column: sum(row[column] for row in air))
    to_right = ball - max(range(columns), key=paddle.__getitem__)
    return 1 + (to_right > 0) - (to_right < 0)


def cliff_walking(observation: OpenSpielObservation) -> int:
    """Walk along the cliff's edge: up, seven times right, down.

    Args:
        observation: The numbers hold a 1 for each step so far.

    Returns:
        0 for right, 1 for up, 3 for down.
    """
    way = [1, *[0] * 7, 3]
    return way[int(sum(observation.info_state)) % len(way)]


def kuhn_poker(observation: OpenSpielObservation) -> int:
    """Bet, unless a bet was made and the card is the jack: what gains most from an opponent who moves at random.

    Args:
        observation: The numbers are who plays, the card, and what was done: passed or bet, in each turn.

    Returns:
        0 to pass, 1 to bet.
    """
    numbers = observation.info_state
    has_jack, faces_bet = numbers[2] == 1, 1 in (numbers[6], numbers[8])
    return 0 if has_jack and faces_bet else 1


def tic_tac_toe(observation: OpenSpielObservation) -> int:
    """Make the move with the best prospects against an opponent who moves at random.

    Args:
        observation: The numbers are a flag for each cell that is empty, has an o, or has an x.

    Returns:
        The cell, 0 to 8.
    """
    circles, crosses = _cells(observation.info_state[9:18]), _cells(observation.info_state[18:27])
    mine, theirs = (crosses, circles) if observation.current_player_id == 0 else (circles, crosses)
    return max(observation.legal_actions, key=lambda cell: _after_mine(mine | 1 << cell, theirs))


STRATEGIES: Mapping[tuple[str, int], Strategy] = MappingProxyType(
    {
        ("catch", 50): catch,
        ("cliff_walking", 400): cliff_walking,
        ("kuhn_poker", 11): kuhn_poker,
        ("tic_tac_toe", 27): tic_tac_toe,
    }
)
"""The strategies by the game's name and how many numbers its observations have."""


def _rows(numbers: Sequence[float], columns: int) -> list[Sequence[float]]:
    return [numbers[start : start + columns] for start in range(0, len(numbers), columns)]


# --- Tic-tac-toe, with a bit for each cell ---------------------------------------------------------------------------

_LINES = (0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)


def _cells(places: Sequence[float]) -> int:
    return sum(1 << cell for cell, there in enumerate(places) if there)


@cache
def _after_mine(mine: int, theirs: int) -> float:
    """Return the value of a position after a move of this player."""
    if _has_line(mine):
        return 1.0
    replies = [_after_theirs(mine, theirs | cell) for cell in _empty(mine, theirs)]
    return sum(replies) / len(replies) if replies else 0.0


@cache
def _after_theirs(mine: int, theirs: int) -> float:
    if _has_line(theirs):
        return -1.0
    return max((_after_mine(mine | cell, theirs) for cell in _empty(mine, theirs)), default=0.0)


def _has_line(cells: int) -> bool:
    return any(cells & line == line for line in _LINES)


def _empty(mine: int, theirs: int) -> list[int]:
    return [1 << cell for cell in range(9) if not (mine | theirs) >> cell & 1]
