"""The Catch environment: OpenSpiel's game in words."""

from typing import Any, ClassVar
from uuid import uuid4

import pyspiel

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State
from openenv.core.exceptions import ResetNeededError
from openenv.core.seeding import rng

from ..models import COLUMNS, ROWS, CatchAction, CatchObservation, Move
from .board import as_html

_GAME = pyspiel.load_game("catch", {"columns": COLUMNS, "rows": ROWS})
_ACTION_IDS: dict[Move, int] = {"left": 0, "stay": 1, "right": 2}


class CatchEnvironment(Environment[CatchAction, CatchObservation, State]):
    """A ball falls from the top; the paddle must be under it when it lands.

    The reward is 0.0 until the ninth step, which ends the episode with 1.0 for a ball that was caught and -1.0 for one
    that was missed.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 256  # a training batch has a session for each of its rollouts
    BLOCKING: ClassVar[bool] = False
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._episode_id: str | None = None
        self._steps = 0
        self._game: Any = None  # a pyspiel.State

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> CatchObservation:
        """Drop a ball.

        Args:
            seed: Determines the ball's column; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.

        Returns:
            The ball at the top and the paddle in the middle, with no reward.
        """
        # Not seeded like a player's own generator: a player with the same seed must not draw the same numbers.
        chance = rng(seed, "chance")
        self._game = _GAME.new_initial_state()
        self._game.apply_action(chance.randrange(COLUMNS))
        self._episode_id = episode_id or str(uuid4())
        self._steps = 0
        return self._observation(reward=None)

    def step(self, action: CatchAction) -> CatchObservation:
        """Move the paddle; the ball falls by a row.

        Args:
            action: The move.

        Returns:
            Where ball and paddle are now.

        Raises:
            ResetNeededError: There is no episode, or it is over.
        """
        if self._game is None or self._game.is_terminal():
            raise ResetNeededError("There is no ball in the air; call reset first.")
        self._game.apply_action(_ACTION_IDS[action.move])
        self._steps += 1
        return self._observation(reward=self._game.returns()[0])

    @property
    def state(self) -> State:
        """The episode's name and its steps so far."""
        return State(episode_id=self._episode_id, step_count=self._steps)

    def render(self) -> str:
        """Return the board: ``o`` is the ball, ``x`` the paddle."""
        return "" if self._game is None else str(self._game).rstrip()

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str:
        """Return the board for the page, of an episode that is played, followed or on record."""
        return as_html(observation)

    def _observation(self, reward: float | None) -> CatchObservation:
        return CatchObservation(
            done=self._game.is_terminal(),
            reward=reward,
            ball=self._game.ball_col(),
            paddle=self._game.paddle_col(),
            row=self._game.ball_row(),
        )
