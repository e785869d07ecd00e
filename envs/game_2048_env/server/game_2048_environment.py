"""The 2048 environment: OpenSpiel's game in words."""

from typing import Any, ClassVar, get_args

from openenv.adapters.openspiel import WordGame

from ..models import Game2048Action, Game2048Observation, Move
from .board import as_html, drawn, in_words

_MOVES: tuple[Move, ...] = get_args(Move)
_SIDE = 4


class Game2048Environment(WordGame[Game2048Action, Game2048Observation]):
    """Slide and merge tiles. The episode ends with a tile of 2048, or when no tile can slide.

    The reward of a move is the sum of the tiles that it made by merging. After each move a tile comes in an empty
    place: a 2, or one time in ten a 4.
    """

    GAME: ClassVar[str] = "2048"

    def render(self) -> str:
        """Return the board in the colours of a terminal."""
        if self._episode is None:
            return ""
        shown = self._shown(self._episode.position, self._episode.numbers(initial=False))
        return drawn(shown.board, shown.score, shown.legal_moves)

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str:
        """Return the board for the page, of an episode that is played, followed or on record."""
        return as_html(observation)

    def _shown(self, position: Any, numbers: dict[str, Any]) -> Game2048Observation:
        board = _board(numbers["info_state"])
        score = int(position.returns()[0])
        moves = [_MOVES[number] for number in numbers["legal_actions"]]
        text = in_words(board, score, moves, initial=numbers["game_phase"] == "initial")
        return Game2048Observation(**numbers, board=board, score=score, legal_moves=moves, text=text)


def _board(tiles: list[float]) -> list[list[int]]:
    return [[int(tile) for tile in tiles[start : start + _SIDE]] for start in range(0, len(tiles), _SIDE)]
