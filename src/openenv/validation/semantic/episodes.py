"""Episodes of given actions and of players, with all that their answers held."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from openenv.adapters.text import observation_fields
from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    ConfigurationError,
    OpenEnvError,
    RequestRejectedError,
    ServerExecutionError,
    ServerSessionError,
)
from openenv.core.wire.results import REWARD_SIGNALS, REWARD_WEIGHTS
from openenv.validation.trials import REFUSING, Client, FaultError, action_fields, where, within

Action = dict[str, Any]
Player = Callable[[Any], Any]

# An exploit is of another type more often than a random action.
_REFUSING = (*REFUSING, "TypeError", "KeyError")


class Clock:
    """Time of a check, after which it leaves out the rest."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Return whether the time is over."""
        return time.monotonic() > self._until


@dataclass(frozen=True)
class GradedAnswer:
    """Answer of an environment to a reset or to an action.

    Attributes:
        observation: The fields that an agent sees.
        metadata: The fields that it does not see.
        reward: The reward; ``None`` without one.
        done: Whether the episode is over.
        refusal: Message by which the action was refused; ``None`` where it was not.
    """

    observation: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reward: float | None = None
    done: bool = False
    refusal: str | None = None

    @classmethod
    def of(cls, result: StepResult[Any]) -> "GradedAnswer":
        """Read a client's result."""
        observation = result.observation
        fields = observation.model_dump(mode="json") if isinstance(observation, BaseModel) else dict(observation or {})
        metadata = {**(fields.get("metadata") or {}), **(result.metadata or {})}
        reward = None if result.reward is None else float(result.reward)
        return cls(observation_fields(fields), metadata, reward, bool(result.done))

    @property
    def parts(self) -> Mapping[str, float]:
        """Parts of the reward by name, as the environment's rubric scored them."""
        parts = self.metadata.get(REWARD_SIGNALS)
        return parts if isinstance(parts, Mapping) else {}

    @property
    def weights(self) -> Mapping[str, float]:
        """Weights of the parts, where the reward is a weighted sum of them."""
        weights = self.metadata.get(REWARD_WEIGHTS)
        return weights if isinstance(weights, Mapping) else {}


@dataclass
class GradedEpisode:
    """Episode that was played.

    Attributes:
        task: Arguments of its reset.
        first: Answer to the reset.
        actions: The actions, as JSON values.
        answers: The answers to them.
        fault: Fault that ended it; ``None`` without one.
    """

    task: Mapping[str, Any]
    first: GradedAnswer = field(default_factory=GradedAnswer)
    actions: list[Action] = field(default_factory=list)
    answers: list[GradedAnswer] = field(default_factory=list)
    fault: str | None = None

    @property
    def total(self) -> float:
        """Sum of the rewards of its steps."""
        return sum(answer.reward or 0.0 for answer in self.answers)

    @property
    def rewards(self) -> list[float | None]:
        """Reward of each step."""
        return [answer.reward for answer in self.answers]

    @property
    def is_over(self) -> bool:
        """Return whether the environment ended it."""
        return bool(self.answers) and self.answers[-1].done

    @property
    def last(self) -> GradedAnswer:
        """The last answer."""
        return self.answers[-1] if self.answers else self.first

    @property
    def is_refused(self) -> bool:
        """Return whether every action was refused."""
        return bool(self.answers) and all(answer.refusal is not None for answer in self.answers)


def play_actions(
    client: Client, task: Mapping[str, Any], actions: Iterable[Action], *, past_end: bool = False
) -> GradedEpisode:
    """Play given actions after a reset, up to the end of the episode.

    Args:
        client: A client whose actions are dicts.
        task: Arguments of the reset.
        actions: The actions.
        past_end: Whether the actions after the end of the episode are sent, too.
    """
    episode = GradedEpisode(task)
    try:
        episode.first = GradedAnswer.of(client.reset(**task))
        for action in actions:
            if episode.last.done and not past_end:
                break
            episode.actions.append(action)
            episode.answers.append(_answer(client, action))
    except OpenEnvError as error:
        episode.fault = where(error)
    return episode


def play_player(
    client: Client,
    task: Mapping[str, Any],
    player: Player,
    max_steps: int,
    answer_s: float,
    seconds: float,
    max_refusals: int = 0,
) -> GradedEpisode:
    """Play an episode with a player.

    Args:
        client: The client that the player's observations and actions are of.
        task: Arguments of the reset.
        player: Function from an observation to an action.
        max_steps: Steps after which the episode is left.
        answer_s: Seconds that the player may take for an action.
        seconds: Seconds after the reset after which the episode is left.
        max_refusals: Number of refused actions after which the episode is left; after each, the player gets the same
            observation again. 0: a refused action fails the episode.
    """
    episode = GradedEpisode(task)
    try:
        result = within(2 * answer_s, client.reset, **task)
        episode.first = GradedAnswer.of(result)
        clock, refusals = Clock(seconds), 0
        while not result.done and len(episode.actions) < max_steps and refusals <= max_refusals and not clock.is_over:
            action = within(answer_s, player, result.observation)
            episode.actions.append(action_fields(action))
            try:
                result = within(2 * answer_s, client.step, action)
                answer = GradedAnswer.of(result)
            except (RequestRejectedError, ServerExecutionError) as error:
                refusal = _refusal(error)
                if refusal is None or not max_refusals:
                    raise
                answer, refusals = GradedAnswer(refusal=refusal), refusals + 1
            episode.answers.append(answer)
    except (OpenEnvError, FaultError, TimeoutError) as error:
        episode.fault = where(error)
        del episode.actions[len(episode.answers) :]
    return episode


def _answer(client: Client, action: Action) -> GradedAnswer:
    try:
        return GradedAnswer.of(client.step(action))
    except (ServerSessionError, ConfigurationError) as error:  # the first after the end
        return GradedAnswer(refusal=str(error))
    except (RequestRejectedError, ServerExecutionError) as error:
        refusal = _refusal(error)
        if refusal is None:
            raise
        return GradedAnswer(refusal=refusal)


def _refusal(error: RequestRejectedError | ServerExecutionError) -> str | None:
    """Return the message by which an action was refused; ``None`` where the environment itself failed."""
    if isinstance(error, RequestRejectedError):
        return str(error)
    return error.message if error.message.startswith(_REFUSING) else None
