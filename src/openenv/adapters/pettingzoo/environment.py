"""A turn-based game of PettingZoo's (its AEC) as an environment to serve."""

from typing import Any, ClassVar

import numpy as np
import pettingzoo

from openenv.adapters.gymnasium.infos import plain_info
from openenv.adapters.gymnasium.space_environment import ActT, ObsT, SpaceEnvironment, Step
from openenv.adapters.pettingzoo.opponents import Opponent, Seating, Turn, legal_actions
from openenv.adapters.pettingzoo.written_moves import written_move
from openenv.agents import Chat, Participant, participants_metadata
from openenv.core.exceptions import IllegalActionError, ResetNeededError
from openenv.core.plain_values import single_value

__all__ = ["PettingZooEnvironment"]


class PettingZooEnvironment(SpaceEnvironment[ActT, ObsT]):
    """A turn-based game, to be served; ``environment_class`` makes the class for an id.

    A session's client plays one seat. An opponent in the server plays the others, so that a step is a move and the
    answer to it. Without an opponent, the client plays every seat in turn. The info's ``agent`` is the seat that is to
    move; where participants play, its ``participants`` has what each has used.

    Example:
        >>> from openenv.adapters.pettingzoo import environment_class
        >>> game = environment_class("classic/tictactoe-v3")()
        >>> game.reset(seed=1)[1]["agent"]
        'player_1'
    """

    library: ClassVar[str] = "pettingzoo"
    example_id: ClassVar[str] = "classic/tictactoe-v3"

    seating: ClassVar[Seating]
    """Player of each seat."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = np.random.default_rng()
        # Conversations of the game with the participants, by their seats; each from its first move on.
        self._chats: dict[str, Chat] = {}

    def _open(self) -> Any:
        return pettingzoo.make("aec", self.id, **self.arguments)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> tuple[ObsT, dict[str, Any]]:
        """Start a game. Seats before the client's have moved already.

        Args:
            seed: Makes the game repeatable, the opponents' moves included.
            episode_id: Names the episode.
            **options: The game's own options.

        Raises:
            ParticipantFailedError: An opponent did not move.
        """
        if seed is not None:
            self._numbers = np.random.default_rng(seed)
        self._episode_id, self._steps, self._chats = episode_id, 0, {}
        self._env.reset(seed=seed, options=options or None)
        self._play_others()
        observation, reward, terminated, truncated, info = self._look()
        if terminated or truncated:  # it was over before the first move
            observation = observation.model_copy(update={"done": True, "reward": reward})
        return observation, info

    def step(self, action: ActT) -> Step[ObsT]:
        """Make a move, and have the others make theirs; returns Gymnasium's five values.

        Raises:
            IllegalActionError: The rules do not allow it now.
            ParticipantFailedError: An opponent did not move. The game is over.
            ResetNeededError: That has happened before.
        """
        mover = self._env.agent_selection
        if self.seating.opponent is not None and mover != self.seating.seat:
            raise ResetNeededError(f"Expected a reset first: {mover}, which is to move, has failed.")
        move = self.action_codec.decode(action.action)
        self._refuse_illegal(move)
        self._env.step(move)
        self._steps += 1
        if self.seating.opponent is None:
            return self._after_any_seat(mover)
        self._play_others()
        return self._look()

    def _turn(self) -> Turn:
        agent = self._env.agent_selection
        observation, _, _, _, info = self._env.last()
        space = self._env.action_space(agent)
        return Turn(agent, observation, space, legal_actions(space, observation, info))

    def _refuse_illegal(self, move: Any) -> None:
        legal = self._turn().legal
        if legal is not None and move not in legal:
            raise IllegalActionError(f"Action {move} is not legal now; expected one of {', '.join(map(str, legal))}.")

    def _is_out(self, agent: str) -> bool:
        return bool(self._env.terminations[agent] or self._env.truncations[agent])

    def _play_others(self) -> None:
        """Have the other seats move until the client's is to move, or is out."""
        seat, opponent = self.seating.seat, self.seating.opponent
        while opponent is not None and self._env.agents and self._env.agent_selection != seat:
            out = self._is_out(self._env.agent_selection)
            # PettingZoo requires a last move of a player that is out, which is none.
            self._env.step(None if out else self._move_of(opponent))

    def _move_of(self, opponent: Opponent | Participant) -> Any:
        turn = self._turn()
        if not isinstance(opponent, Participant):
            return opponent(turn, self._numbers)
        chat = self._chats.setdefault(turn.agent, Chat(opponent, turn.agent))
        return written_move(chat, turn, self.description)

    def _look(self) -> Step[ObsT]:
        """Return the position as seen by the seat that is to move, with its reward since its last move."""
        value, reward, terminated, truncated, info = self._env.last()
        info = {"agent": self._env.agent_selection, **info}
        if self._chats:
            info |= participants_metadata(self._chats.values())
        number = float(single_value(reward))
        return self._observation(value), number, bool(terminated), bool(truncated), plain_info(info)

    def _after_any_seat(self, mover: str) -> Step[ObsT]:
        """Return the reward of a seat for its move, and the position as seen by the next seat."""
        env = self._env
        rewards = {agent: float(single_value(reward)) for agent, reward in env.rewards.items()}
        terminated, truncated = all(env.terminations.values()), all(map(self._is_out, env.agents))
        while not truncated and self._is_out(env.agent_selection):
            env.step(None)
        observation, _, _, _, info = self._look()
        return observation, rewards[mover], terminated, truncated and not terminated, {**info, "rewards": rewards}
