"""A game of OpenSpiel as an environment."""

from collections.abc import Mapping
from secrets import randbits
from typing import Any, ClassVar
from uuid import uuid4

from openenv.adapters.openspiel.board import as_html
from openenv.adapters.openspiel.episode import Episode
from openenv.adapters.openspiel.games import load_game
from openenv.adapters.openspiel.models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from openenv.adapters.openspiel.opponents import OpponentPolicy
from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import IllegalActionError, InvalidRequestError, ResetNeededError

__all__ = ["OpenSpielEnvironment"]

# Go has 362 moves; an error message need not list them all.
_NAMED_ACTIONS = 20


class OpenSpielEnvironment(Environment[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """Plays a game of OpenSpiel. The reward of a step is what the agent's player gained since its last move.

    Args:
        game_name: OpenSpiel's short name of the game.
        game_params: Parameters that differ from the game's defaults.
        agent_player: The player whom the client plays, and whose rewards are reported.
        opponent_policy: How the other players move; with ``self`` the client plays them too.

    Example:
        >>> env = OpenSpielEnvironment("tic_tac_toe", opponent_policy="first")
        >>> env.reset(seed=1).legal_actions
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
        >>> env.step(OpenSpielAction(action_id=4)).opponent_last_action
        0
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 8
    REQUIRES_RESET: ClassVar[bool] = True

    def __init__(
        self,
        game_name: str,
        game_params: Mapping[str, Any] | None = None,
        agent_player: int = 0,
        opponent_policy: OpponentPolicy = "random",
    ) -> None:
        super().__init__()
        self.game_name = game_name
        self.game_params = dict(game_params or {})
        self.agent_player = agent_player
        self.opponent_policy: OpponentPolicy = opponent_policy
        self._episode: Episode | None = None
        self._gained: list[float] = []
        self._state = self._fresh_state(None, game_name, self.game_params, 1)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> OpenSpielObservation:
        """Start the game and play it up to the agent's first move.

        Args:
            seed: The same seed gives the same chance outcomes and the same random opponents; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.

        Returns:
            What the agent sees, with no reward.

        Raises:
            InvalidRequestError: There is no such game, it cannot be played with its parameters, or it has no such
                player as the agent.
        """
        return self.start(self.game_name, self.game_params, seed, episode_id)

    def start(
        self, game_name: str, game_params: Mapping[str, Any], seed: int | None, episode_id: str | None
    ) -> OpenSpielObservation:
        """Start any game, for subclasses whose resets choose it.

        Args:
            game_name: OpenSpiel's short name of the game.
            game_params: Parameters that differ from the game's defaults.
            seed: As in ``reset``.
            episode_id: As in ``reset``.

        Returns:
            What the agent sees, with no reward.

        Raises:
            InvalidRequestError: As in ``reset``. The running episode continues.
        """
        params = dict(game_params)
        seed = randbits(64) if seed is None else seed
        game = load_game(game_name, params, seed)
        if self.agent_player >= game.num_players():
            raise InvalidRequestError(
                f"{game_name} has {game.num_players()} player(s), numbered from 0, and this server's agent is player "
                f"{self.agent_player}; choose another game, or start the server with another agent player."
            )
        self._episode = Episode(game, self.agent_player, self.opponent_policy, seed)
        self._gained = [0.0] * game.num_players()
        self._state = self._fresh_state(episode_id or str(uuid4()), game_name, params, game.num_players())
        return self._observation(self._episode, initial=True)

    def step(self, action: OpenSpielAction) -> OpenSpielObservation:
        """Make a move; chance and the other players answer.

        Args:
            action: The move.

        Returns:
            Observation of the player that is to move next, and the agent's reward.

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
        """Names and steps of the game."""
        return self._state

    def render(self) -> str:
        """Return the observation of the player that is to move, in words."""
        return "" if self._episode is None else self._episode.text()

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str | None:
        """Return the board for the page, of an episode that is played, followed or on record."""
        return as_html(observation)

    def _fresh_state(self, episode_id: str | None, name: str, params: dict[str, Any], players: int) -> OpenSpielState:
        return OpenSpielState(
            episode_id=episode_id,
            game_name=name,
            agent_player=self.agent_player,
            opponent_policy=self.opponent_policy,
            game_params=params,
            num_players=players,
        )

    def _observation(self, episode: Episode, *, initial: bool = False) -> OpenSpielObservation:
        self._state.step_count = episode.moves
        rewards = self._rewards(episode)
        plays_all = self.opponent_policy == "self"
        return OpenSpielObservation(
            done=episode.over,
            reward=None if initial and not episode.over else rewards[self.agent_player],
            text=episode.text(),
            metadata={"rewards": rewards} if plays_all and not initial else {},
            **episode.numbers(initial=initial),
        )

    def _rewards(self, episode: Episode) -> list[float]:
        """Return what each player gained since the last observation."""
        gained, self._gained = self._gained, episode.returns
        return [now - before for now, before in zip(self._gained, gained, strict=True)]


def _refusal(action: int, episode: Episode) -> str:
    names = episode.action_names()
    more = f" and {len(names) - _NAMED_ACTIONS} more" if len(names) > _NAMED_ACTIONS else ""
    return (
        f"Action {action} is not legal for player {episode.player} now; "
        f"play one of {', '.join(names[:_NAMED_ACTIONS])}{more}."
    )
