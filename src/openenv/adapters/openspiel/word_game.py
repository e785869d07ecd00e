"""One game of OpenSpiel for one player, with words for moves."""

from abc import abstractmethod
from secrets import randbits
from typing import Any, ClassVar, Generic, TypeVar
from uuid import uuid4

from openenv.adapters.openspiel.episode import Episode
from openenv.adapters.openspiel.games import load_game
from openenv.adapters.openspiel.models import OpenSpielObservation, OpenSpielState
from openenv.adapters.openspiel.words import WordAction
from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import IllegalActionError, ResetNeededError

__all__ = ["WordGame"]

WordT = TypeVar("WordT", bound=WordAction)
ShownT = TypeVar("ShownT", bound=OpenSpielObservation)


class WordGame(Environment[WordT, ShownT, OpenSpielState], Generic[WordT, ShownT]):
    """Plays the game that a subclass names. A seed makes the same episode as in the OpenSpiel environment."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 256  # a training batch has a session for each of its rollouts
    BLOCKING: ClassVar[bool] = False
    REQUIRES_RESET: ClassVar[bool] = True

    GAME: ClassVar[str]
    """OpenSpiel's short name of the game, which is for one player."""

    def __init__(self) -> None:
        super().__init__()
        self._episode: Episode | None = None
        self._state = OpenSpielState(game_name=self.GAME)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> ShownT:
        """Start a game.

        Args:
            seed: Seed of chance; ``None`` for a random seed.
            episode_id: Name of the episode; a new one is made up where there is none.

        Returns:
            The first position, with no reward.
        """
        seed = randbits(64) if seed is None else seed
        self._episode = Episode(load_game(self.GAME, {}, seed), 0, "random", seed)
        self._state = OpenSpielState(game_name=self.GAME, episode_id=episode_id or str(uuid4()))
        return self._observation(self._episode, None)

    def step(self, action: WordT) -> ShownT:
        """Make a move, which chance answers.

        Args:
            action: The move.

        Returns:
            The next position, and what the move gained.

        Raises:
            IllegalActionError: The move is not possible now. Nothing happened.
            ResetNeededError: There is no episode, or it is over.
        """
        episode = self._episode
        if episode is None or episode.over:
            raise ResetNeededError("There is no running game to move in; call reset first.")
        if action.action_id not in episode.legal_actions:
            possible = ", ".join(action.words()[number] for number in episode.legal_actions)
            raise IllegalActionError(f"{action.move!r} is not possible now; play one of {possible}.")
        before = episode.returns[0]
        episode.play(action.action_id)
        return self._observation(episode, episode.returns[0] - before)

    @property
    def state(self) -> OpenSpielState:
        """Names and steps of the game."""
        return self._state

    def _observation(self, episode: Episode, gained: float | None) -> ShownT:
        self._state.step_count = episode.moves
        numbers = {"done": episode.over, "reward": gained, **episode.numbers(initial=gained is None)}
        return self._shown(episode.position, numbers)

    @abstractmethod
    def _shown(self, position: Any, numbers: dict[str, Any]) -> ShownT:
        """Make the observation."""
