"""The TextArena environment: a game for each episode, chosen at the reset."""

from secrets import randbits
from typing import Annotated, Any, ClassVar
from uuid import uuid4

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import ResetNeededError

from ..models import History, Opponents, TextArenaAction, TextArenaMessage, TextArenaObservation, TextArenaState
from .board import as_html
from .episode import Episode
from .game import MOST_PLAYERS, Game, start
from .opponents import Opponent, make_opponents
from .rewards import WordleReward
from .settings import Settings


class TextArenaEnvironment(Environment[TextArenaAction, TextArenaObservation, TextArenaState]):
    """Plays a game of TextArena. The reward is the game's own at its end, and 0.0 before; in Wordle it is 1.0 or 0.0.

    What is no legal move is no error here: the game says so, forgives it once, and ends at the second in a row.

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
        self._last: TextArenaObservation | None = None
        self._state = TextArenaState(env_id=self._settings.env_id, num_players=self._settings.num_players)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        env_id: str | None = None,
        num_players: Annotated[int, Field(ge=1, le=MOST_PLAYERS)] | None = None,
        max_turns: Annotated[int, Field(ge=1)] | None = None,
        opponents: Opponents | None = None,
        player_id: int = 0,
        history: History | None = None,
    ) -> TextArenaObservation:
        """Start a game, and play it up to the client's first move.

        Args:
            seed: The same seed gives the same game and the same opponents; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            env_id: TextArena's id of the game; by default the server's.
            num_players: Players in the game; by default the server's number, or as many as the game needs.
            max_turns: Messages of all players after which the episode is cut off; by default the server's.
            opponents: How the other players move: ``random`` legal moves, as the ``scripted`` player, as the server's
                ``participant`` writes, or ``self``: the client plays all players in turn.
            player_id: The client's player; of no meaning with ``self``.
            history: Whether an observation shows what is ``new``, or the ``cumulative`` transcript.

        Returns:
            The rules and the first position, with no reward.

        Raises:
            InvalidRequestError: A parameter is not allowed, or does not go with the game. The running episode
                continues.
            ParticipantFailedError: An opponent that moves before the client did not.
        """
        settings = self._settings
        env_id = settings.env_id if env_id is None else env_id
        cap = settings.max_turns if max_turns is None else max_turns
        seed = randbits(64) if seed is None else seed
        options = settings.options if env_id == settings.env_id else {}
        game = start(env_id, num_players, settings.num_players, seed, options)
        client, others = self._players(opponents or settings.opponents, game, player_id, seed)
        self._episode = None  # unless an opponent's first move fails
        self._episode = Episode(game, client, others, history or settings.history, cap)
        self.rubric = WordleReward() if game.name == "Wordle" else None
        self._state = TextArenaState(
            episode_id=episode_id or str(uuid4()), env_id=env_id, num_players=game.num_players, max_turns=cap
        )
        return self._observation(self._episode)

    def step(self, action: TextArenaAction) -> TextArenaObservation:
        """Write to the game; opponents answer.

        Args:
            action: The text.

        Returns:
            The observation of the player that is to move next, and the reward.

        Raises:
            ParticipantFailedError: An opponent did not move. The game is over.
            ResetNeededError: There is no episode, or it is over.
        """
        episode = self._episode
        if episode is None or episode.over or episode.awaits_opponent:
            raise ResetNeededError("There is no running game to write to; call reset first.")
        episode.play(action.message)
        return self._observation(episode, action)

    @property
    def state(self) -> TextArenaState:
        """The game and how far it has got; nothing that it keeps secret."""
        episode, last = self._episode, self._last
        if episode is None or last is None:
            return self._state
        game = episode.game
        facts = {"current_player_id": game.player, "done": game.over, "max_turns": game.own_max_turns}
        return self._state.model_copy(
            update={
                "step_count": episode.messages,
                "turn": game.turn,
                "last_reward": float(last.reward or 0.0),
                "last_info": last.info,
                "raw_state": facts,
            }
        )

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str | None:
        """Return the board for the page, of an episode that is played, followed or on record."""
        return as_html(observation)

    def _players(
        self, kind: Opponents, game: Game, player_id: int, seed: int | str
    ) -> tuple[int | None, dict[int, Opponent]]:
        if game.num_players == 1:
            return 0, {}
        if kind == "self":
            return None, {}
        return player_id, make_opponents(kind, game, player_id, seed, self._settings.participant)

    def _observation(self, episode: Episode, action: TextArenaAction | None = None) -> TextArenaObservation:
        reward = None if action is None and not episode.over else _reward(episode)
        info = _ending(episode) if episode.over else {}
        observation, new = episode.observe(reward, info)
        if info:
            observation.text += f"\n[GAME] {info['reason']}"
        if action is not None and self.rubric is not None:
            self._score(observation, new, action)
        self._last = observation
        return observation

    def _score(self, observation: TextArenaObservation, new: list[TextArenaMessage], action: TextArenaAction) -> None:
        assert isinstance(self.rubric, WordleReward)
        answer = observation if observation.messages is new else observation.model_copy(update={"messages": new})
        observation.reward = self._apply_rubric(action, answer)
        observation.info["reward_signals"] = self.rubric.component_scores()


def _reward(episode: Episode) -> float:
    reward = episode.game.rewards.get(episode.rewarded_player, 0.0) if episode.game.over else 0.0
    # TextArena gives a lost game of Wordle the share of letters that its last guess had right.
    return float(reward >= 1.0) if episode.game.name == "Wordle" else reward


def _ending(episode: Episode) -> dict[str, Any]:
    if episode.truncated:
        return {"truncated": True, "reason": f"The episode was cut off after {episode.messages} messages."}
    rewards = {str(player): reward for player, reward in sorted(episode.game.rewards.items())}
    return {"rewards": rewards, "reason": episode.game.reason(episode.observing_player)}
