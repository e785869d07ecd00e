"""The environment's own reward, whole or by component, as reward functions of TRL."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.records.answers import AnswerCounts, answer_counts
from openenv.records.failures import failure_counts
from openenv.records.scores import component_means
from openenv.train.episodes.failure_watch import FailureWatch
from openenv.train.episodes.spending import SpendingCounter
from openenv.train.rollout.tool_episode import ToolEpisode

__all__ = ["ComponentReward", "EnvironmentReward", "log_components"]

logger = logging.getLogger(__name__)

# Attributes of an episode by the fields of a `RolloutFunction` that they are like.
_ATTRIBUTES = {
    "environment_reward": "reward",
    "training_reward": "training_reward",
    "failure": "failure",
    "spent": "spent",
    "episode_length": "length",
    "illegal_actions": "illegal_actions",
    "illegal_texts": "illegal_texts",
    "answers_without_call": "answers_without_call",
    "reward_components": "reward_components",
}


class EnvironmentReward:
    """Gives each episode the sum of its environment's rewards, and logs how the episodes went.

    It reads either of TRL's ways: the environments of ``environment_factory``, or what a ``rollout_func`` returned.

    Args:
        environment: Name of one of several environments, whose episodes alone it scores.
        answers: Batches with the counts of their answers, which a spec warns of at its end; ``None`` for none.

    Attributes:
        __name__: What TRL calls it in its metrics.

    Example:
        >>> reward = EnvironmentReward()
        >>> reward(environment_reward=[1.0, None], episode_length=[3, 1], illegal_actions=[0, 1])
        [1.0, None]
    """

    def __init__(self, environment: str | None = None, answers: deque[list[dict[str, Any]]] | None = None) -> None:
        self._environment = environment
        self._answers = answers
        self._watch = FailureWatch()
        self.__name__ = "environment_reward" if environment is None else f"{environment}_reward"

    def __call__(
        self,
        *,
        environments: Sequence[ToolEpisode] | None = None,
        environment: Sequence[str] | None = None,
        completions: Sequence[Any] = (),
        log_metric: Any = None,
        log_extra: Any = None,
        **fields: Any,
    ) -> list[float | None]:
        """Score the episodes of a batch.

        Args:
            environments: The environments that they were played in.
            environment: Names of these, where there are several.
            completions: The conversations of TRL's own loop, which have the calls that it refused itself.
            log_metric: TRL's logger of scalars.
            log_extra: TRL's logger of columns beside the completions.
            **fields: Those of a `RolloutFunction`, and what else TRL passes to every reward function.

        Returns:
            The rewards less what illegal actions cost; ``None`` where the environment failed or is another one.

        Raises:
            ConfigurationError: The episodes were not played in an ``EnvSpec``.
            EnvironmentFailedError: More than half of the last 32 episodes failed, beyond chance.
        """
        if environments is not None:
            for each, conversation in zip(environments, completions, strict=False):
                each.note_answers(conversation)
            fields = {name: [getattr(each, own) for each in environments] for name, own in _ATTRIBUTES.items()}
        rewards: Sequence[float | None] | None = fields.get("environment_reward")
        if rewards is None:
            raise _no_episodes()
        mine = _is_own(self._environment, environment, len(rewards))
        played = [index for index, is_mine in enumerate(mine) if is_mine]
        if environments is not None:
            self._watch.add(environments[index] for index in played)
        lines = _answer_lines([index for index in played if rewards[index] is not None], fields)
        if self._answers is not None:
            self._answers.append(lines)
        if log_metric is not None and played:
            self._log(log_metric, played, lines, fields)
        texts = fields.get("illegal_texts") or ()
        if log_extra is not None and any(texts):
            own_texts = ["\n".join(each) if is_mine else "" for each, is_mine in zip(texts, mine, strict=True)]
            log_extra(f"{self._folder}/illegal_texts", own_texts)
        return [
            reward if is_mine else None
            for reward, is_mine in zip(fields.get("training_reward") or rewards, mine, strict=True)
        ]

    @property
    def _folder(self) -> str:
        return "episode" if self._environment is None else f"episode/{self._environment}"

    def _log(
        self,
        log_metric: Any,
        played: Sequence[int],
        lines: Sequence[Mapping[str, Any]],
        fields: Mapping[str, Sequence[Any]],
    ) -> None:
        counted = [index for index in played if fields["environment_reward"][index] is not None]
        log_metric(f"{self._folder}/failed", 1 - len(counted) / len(played))
        kinds = fields.get("failure") or [None] * len(fields["environment_reward"])
        for kind, count in failure_counts(kinds[index] for index in played if kinds[index]).items():
            log_metric(f"{self._folder}/failures/{kind}", float(count))
        spending = SpendingCounter()
        for index in played if "spent" in fields else ():
            spending.add(fields["spent"][index])
        for metric, value in spending.drain().items():
            log_metric(metric, value)
        names = {"reward": "environment_reward", "length": "episode_length", "illegal_actions": "illegal_actions"}
        for name, values in names.items():
            if values in fields and counted:
                log_metric(f"{self._folder}/{name}", sum(fields[values][index] for index in counted) / len(counted))
        counts = AnswerCounts.of_lines(lines)
        if counts.no_calls:  # where actions are texts there are none
            log_metric(f"{self._folder}/no_calls", counts.no_calls / counts.episodes)
        if "reward_components" in fields:
            log_components(log_metric, self._folder, [fields["reward_components"][index] for index in counted])


class ComponentReward:
    """Gives each episode the score of one component of its environment's reward, summed over the steps.

    A trainer that normalises each reward function over the group, such as TRL with
    ``multi_objective_aggregation="normalize_then_sum"``, then sees a rare component beside a frequent one.

    Args:
        component: Name of the component.
        environment: Name of one of several environments, whose episodes alone it scores.
        episodes: Logs how the episodes went, once for all components: a function that takes what TRL passes to every
            reward function. ``None`` where another function does.

    Attributes:
        __name__: What TRL calls it in its metrics: the component's name.

    Example:
        >>> reward = ComponentReward("format")
        >>> reward(environment_reward=[1.5, None], reward_components=[{"format": 1.0, "answer": 0.5}, {}])
        [1.0, None]
    """

    def __init__(
        self, component: str, environment: str | None = None, episodes: Callable[..., Any] | None = None
    ) -> None:
        self._component = component
        self._environment = environment
        self._episodes = episodes
        self._has_warned = False
        self.__name__ = component if environment is None else f"{environment}_{component}"

    def __call__(
        self,
        *,
        environments: Sequence[ToolEpisode] | None = None,
        environment: Sequence[str] | None = None,
        environment_reward: Sequence[float | None] | None = None,
        reward_components: Sequence[Mapping[str, float]] | None = None,
        **others: Any,
    ) -> list[float | None]:
        """Score the episodes of a batch.

        Args:
            environments: The environments that they were played in.
            environment: Names of these, where there are several.
            environment_reward: From a ``rollout_func``: the sum of the rewards, ``None`` where the environment failed.
            reward_components: From there: the sum of each component's scores, by name.
            **others: What else TRL passes to every reward function.

        Returns:
            The sums of the component's scores; ``None`` where it was not called, the environment failed, or is
            another one.

        Raises:
            ConfigurationError: The episodes were not played in an ``EnvSpec``.
            EnvironmentFailedError: More than half of the last 32 episodes failed, beyond chance.
        """
        if self._episodes is not None:
            self._episodes(
                environments=environments,
                environment=environment,
                environment_reward=environment_reward,
                reward_components=reward_components,
                **others,
            )
        if environments is not None:
            environment_reward = [each.reward for each in environments]
            reward_components = [each.reward_components for each in environments]
        if environment_reward is None or reward_components is None:
            raise _no_episodes()
        mine = _is_own(self._environment, environment, len(environment_reward))
        played = [
            components if is_mine and reward is not None else {}
            for reward, components, is_mine in zip(environment_reward, reward_components, mine, strict=True)
        ]
        self._warn_of_unknown(played)
        return [components.get(self._component) for components in played]

    def _warn_of_unknown(self, episodes: Sequence[Mapping[str, float]]) -> None:
        """Log, once, that no episode has the component: it is misspelt, or none has come as far as it."""
        names = dict.fromkeys(name for components in episodes for name in components)
        if self._component in names or self._has_warned:
            return
        self._has_warned = True
        logger.warning(
            "No episode of the batch has a score of the reward's component %r; it has scores of: %s.",
            self._component,
            ", ".join(names) or "none, so the environment may have no rubric",
        )


def log_components(log_metric: Any, folder: str, episodes: Sequence[Mapping[str, float]]) -> None:
    """Log the mean of each component over the episodes in which it was called, below a folder such as ``episode``."""
    for name, mean in component_means(episodes).items():
        log_metric(f"{folder}/reward_components/{name}", mean)


def _answer_lines(episodes: Sequence[int], fields: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the counts of some episodes' answers, as a line of a `Collection` has them; none without the fields."""
    if not {"episode_length", "illegal_actions"} <= fields.keys():
        return []
    texts, without_call = fields.get("illegal_texts"), fields.get("answers_without_call")
    return [
        answer_counts(
            length=fields["episode_length"][index],
            illegal_actions=fields["illegal_actions"][index],
            illegal_texts=texts[index] if texts else (),
            answers_without_call=without_call[index] if without_call else 0,
        )
        for index in episodes
    ]


def _is_own(own: str | None, names: Sequence[str] | None, count: int) -> list[bool]:
    """Return of each episode whether it was played in the environment of a reward function."""
    return [own is None or name == own for name in names or ()] or [True] * count


def _no_episodes() -> ConfigurationError:
    return ConfigurationError(
        "Expected episodes of an EnvSpec's environment_factory or rollout_func; the trainer has neither."
    )
