"""The OpenSpiel environment: a game for each episode, chosen at the reset."""

from collections.abc import Mapping
from secrets import randbits
from typing import Any, ClassVar
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import IllegalActionError, InvalidRequestError, ResetNeededError

from ..models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from .episode import Episode
from .games import load_game
from .settings import Settings

# Go has 362 moves; an error message need not list them all.
_NAMED_ACTIONS = 20


class OpenSpielEnvironment(Environment[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """Plays a game of OpenSpiel. The reward of a step is what the agent's player gained since its last move.

    Args:
        settings: What to play where a reset does not say; by default what the environment variables do.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 8
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = settings or Settings.from_variables()
        self._episode: Episode | None = None
        self._gained: list[float] = []
        self._state = self._fresh_state(None, self._settings.game_name, {}, 1)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        game_name: str | None = None,
        game_params: Mapping[str, Any] | None = None,
    ) -> OpenSpielObservation:
        """Start a game and play it up to the agent's first move.

        Args:
            seed: The same seed gives the same chance outcomes and the same random opponents; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            game_name: OpenSpiel's short name of the game; by default the server's.
            game_params: Parameters that differ from the game's defaults.

        Returns:
            What the agent sees, with no reward.

        Raises:
            InvalidRequestError: There is no such game, it cannot be played with these parameters, or it has no such
                player as the server's agent. The running episode goes on.
        """
        name = self._settings.game_name if game_name is None else game_name
        params = dict(game_params or {})
        seed = randbits(64) if seed is None else seed
        game = load_game(name, params, seed)
        player = self._settings.agent_player
        if player >= game.num_players():
            raise InvalidRequestError(
                f"{name} has {game.num_players()} player(s), numbered from 0, and this server's agent is player "
                f"{player}; choose another game, or start the server with another OPENSPIEL_AGENT_PLAYER."
            )
        self._episode = Episode(game, player, self._settings.opponent_policy, seed)
        self._gained = [0.0] * game.num_players()
        self._state = self._fresh_state(episode_id or str(uuid4()), name, params, game.num_players())
        return self._observation(self._episode, initial=True)

    def step(self, action: OpenSpielAction) -> OpenSpielObservation:
        """Make a move; chance and the other players answer.

        Args:
            action: The move.

        Returns:
            What the player sees who is to move next, and the agent's reward.

        Raises:
            IllegalActionError: The move is not among the legal ones. Nothing happened.
            ResetNeededError: There is no episode, or it is over.
        """
        episode = self._episode
        if episode is None or episode.over:
            raise ResetNeededError("There is no running game to move in; call reset first.")
        if action.action_id not in episode.legal_actions:
            raise IllegalActionError(_refusal(action.action_id, episode))
        episode.play(action.action_id)
        return self._observation(episode)

    @property
    def state(self) -> OpenSpielState:
        """The game and how far it has got."""
        return self._state

    def render(self) -> str:
        """Return in words what the player sees who is to move."""
        return "" if self._episode is None else self._episode.text()

    def _fresh_state(self, episode_id: str | None, name: str, params: dict[str, Any], players: int) -> OpenSpielState:
        return OpenSpielState(
            episode_id=episode_id,
            game_name=name,
            agent_player=self._settings.agent_player,
            opponent_policy=self._settings.opponent_policy,
            game_params=params,
            num_players=players,
        )

    def _observation(self, episode: Episode, *, initial: bool = False) -> OpenSpielObservation:
        self._state.step_count = episode.moves
        rewards = self._rewards(episode)
        plays_all = self._settings.opponent_policy == "self"
        return OpenSpielObservation(
            done=episode.over,
            reward=None if initial and not episode.over else rewards[self._settings.agent_player],
            text=episode.text(),
            metadata={"rewards": rewards} if plays_all and not initial else {},
            **episode.numbers(initial=initial),
        )

    def _rewards(self, episode: Episode) -> list[float]:
        """What each player gained since the last observation."""
        gained, self._gained = self._gained, episode.returns
        return [now - before for now, before in zip(self._gained, gained, strict=True)]


def _refusal(action: int, episode: Episode) -> str:
    names = episode.action_names()
    more = f" and {len(names) - _NAMED_ACTIONS} more" if len(names) > _NAMED_ACTIONS else ""
    return (
        f"Action {action} is not legal for player {episode.player} now; "
        f"play one of {', '.join(names[:_NAMED_ACTIONS])}{more}."
    )
