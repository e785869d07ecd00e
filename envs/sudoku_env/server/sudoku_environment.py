"""The Sudoku environment: episodes over the puzzles."""

from typing import Annotated, Any, ClassVar
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import IllegalActionError, InvalidRequestError, ResetNeededError

from ..game import Game, Outcome, cell_at, place_of
from ..grid import CELLS
from ..models import SudokuAction, SudokuHint, SudokuObservation, SudokuState
from ..puzzles import CLUES, MOST_CLUES, Difficulty, make_puzzle
from .board import as_html, coloured, in_words
from .rewards import sudoku_reward

MOST_MOVES = 1000


class SudokuEnvironment(Environment[SudokuAction, SudokuObservation, SudokuState]):
    """Fill a Sudoku. The reward is 1.0 for the move that solves it, and 0.0 for any other.

    A wrong digit is not written, and costs a move. A move to a cell that is filled is refused and does not count.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 8
    BLOCKING: ClassVar[bool] = False
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(rubric=sudoku_reward())
        self._episode_id: str | None = None
        self._difficulty: Difficulty = "easy"
        self._hints = 0
        self._game: Game | None = None
        self._outcome: Outcome | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        difficulty: Difficulty = "easy",
        hints: Annotated[int, Field(ge=0, le=len(CELLS))] = 3,
        max_moves: Annotated[int, Field(ge=1, le=MOST_MOVES)] | None = None,
        clues: Annotated[int, Field(ge=min(CLUES.values()), le=MOST_CLUES)] | None = None,
    ) -> SudokuObservation:
        """Draw a puzzle and start an episode.

        Args:
            seed: The same seed gives the same puzzle of a difficulty; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            difficulty: ``very-easy`` (60 clues), ``easy`` (45), ``medium`` (36) or ``hard`` (28).
            hints: Cells whose candidates an observation tells.
            max_moves: Moves in the episode; by default twice as many as there are empty cells.
            clues: More clues than the difficulty has, for an easier puzzle: with 80 one cell is empty.

        Returns:
            The puzzle, with no reward.

        Raises:
            InvalidRequestError: The difficulty has more clues than these. The running episode continues.
        """
        clues = CLUES[difficulty] if clues is None else clues
        if clues < CLUES[difficulty]:
            raise InvalidRequestError(
                f"Expected clues from {CLUES[difficulty]} to {MOST_CLUES} for {difficulty} puzzles, got {clues}; "
                "choose a harder difficulty for fewer."
            )
        moves = 2 * (len(CELLS) - clues) if max_moves is None else max_moves
        game = Game(make_puzzle(seed, difficulty, clues), moves)
        self._episode_id = episode_id or str(uuid4())
        self._difficulty, self._hints = difficulty, hints
        self._game, self._outcome = game, None
        return self._observation(game)

    def step(self, action: SudokuAction) -> SudokuObservation:
        """Write a digit.

        Args:
            action: The cell and the digit.

        Returns:
            The board, and the outcome of the move.

        Raises:
            IllegalActionError: The cell is filled. The move is not counted.
            ResetNeededError: There is no episode, or it is over.
        """
        game = self._game
        if game is None or game.over:
            raise ResetNeededError("There is no running puzzle to fill; call reset first.")
        cell = cell_at(action.row, action.col)
        if game.grid[cell]:
            raise IllegalActionError(
                f"Row {action.row}, column {action.col} already holds {game.grid[cell]}; choose an empty cell."
            )
        self._outcome = game.play(cell, action.number)
        observation = self._observation(game, self._outcome)
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self) -> SudokuState:
        """The board so far. The solution is not in it."""
        game = self._game
        if game is None:
            return SudokuState()
        return SudokuState(
            episode_id=self._episode_id,
            step_count=game.moves,
            difficulty=self._difficulty,
            board=game.board,
            clues=len(CELLS) - game.puzzle.clues.count(0),
            max_moves=game.max_moves,
            solved=game.solved,
        )

    def render(self) -> str:
        """Return the outcome of the last move, and the board in the colours of a terminal."""
        return "" if self._game is None else coloured(self._game, self._outcome)

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str:
        """Return the grid for the page, of an episode that is played, followed or on record."""
        return as_html(observation)

    def _observation(self, game: Game, outcome: Outcome | None = None) -> SudokuObservation:
        hints = [] if game.over else game.hints(self._hints)
        return SudokuObservation(
            done=game.over,
            board=game.board,
            valid=None if outcome is None else outcome.correct,
            message="" if outcome is None else outcome.message,
            progress=game.progress,
            moves_left=game.max_moves - game.moves,
            hints=[_hint(cell, numbers) for cell, numbers in hints],
            tried=[[*place_of(cell), number] for cell, number in game.tried],
            text=in_words(game, outcome, hints),
        )


def _hint(cell: int, numbers: list[int]) -> SudokuHint:
    row, col = place_of(cell)
    return SudokuHint(row=row, col=col, numbers=numbers)
