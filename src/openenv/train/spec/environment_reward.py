"""The environment's own reward, as a reward function of TRL."""

from collections.abc import Sequence
from typing import Any

from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.spec.tool_environment import ToolEnvironment

__all__ = ["EnvironmentReward"]


class EnvironmentReward:
    """Gives each episode the sum of its environment's rewards, and logs how the episodes went.

    It reads either of TRL's ways: the environments of ``environment_factory``, or what a ``rollout_func`` returned.

    Args:
        environment: Name of one of several environments, whose episodes alone it scores.

    Attributes:
        __name__: What TRL calls it in its metrics.

    Example:
        >>> reward = EnvironmentReward()
        >>> reward(environment_reward=[1.0, None], episode_length=[3, 1], illegal_actions=[0, 1])
        [1.0, None]
    """

    def __init__(self, environment: str | None = None) -> None:
        self._environment = environment
        self.__name__ = "environment_reward" if environment is None else f"{environment}_reward"

    def __call__(
        self,
        *,
        environments: Sequence[ToolEnvironment] | None = None,
        environment: Sequence[str] | None = None,
        environment_reward: Sequence[float | None] | None = None,
        training_reward: Sequence[float | None] | None = None,
        episode_length: Sequence[int] | None = None,
        illegal_actions: Sequence[int] | None = None,
        log_metric: Any = None,
        **_: Any,
    ) -> list[float | None]:
        """Score the episodes of a batch.

        Args:
            environments: The environments that they were played in.
            environment: Names of these, where there are several.
            environment_reward: From a ``rollout_func``: the sum of the rewards, ``None`` where the environment failed.
            training_reward: From there: the same less a penalty for illegal actions; it is what the model learns from.
            episode_length: From there: the actions of each episode.
            illegal_actions: From there: how many of these were none.
            log_metric: TRL's logger of scalars.
            **_: What TRL passes to every reward function.

        Returns:
            The rewards; ``None`` where the environment failed or is another one.

        Raises:
            ConfigurationError: The episodes were not played in an ``EnvSpec``.
            OpenEnvError: The environment failed in more than half of the episodes.
        """
        if environments is not None:
            environment_reward = [each.reward for each in environments]
            episode_length = [len(each.trajectory) for each in environments]
            illegal_actions = [each.illegal_actions for each in environments]
        if environment_reward is None:
            raise ConfigurationError(
                "Expected episodes of an EnvSpec's environment_factory or rollout_func; the trainer has neither."
            )
        mine = [self._environment is None or each == self._environment for each in environment or ()]
        mine = mine or [True] * len(environment_reward)
        played = [index for index, is_mine in enumerate(mine) if is_mine]
        if environments is not None:
            _raise_if_most_failed([environments[index].error for index in played])
        if log_metric is not None and played:
            self._log(log_metric, played, environment_reward, episode_length, illegal_actions)
        rewards = environment_reward if training_reward is None else training_reward
        return [reward if is_mine else None for reward, is_mine in zip(rewards, mine, strict=True)]

    def _log(
        self,
        log_metric: Any,
        played: Sequence[int],
        rewards: Sequence[float | None],
        lengths: Sequence[int] | None,
        illegal: Sequence[int] | None,
    ) -> None:
        folder = "episode" if self._environment is None else f"{self._environment}/episode"
        scored = [reward for index in played if (reward := rewards[index]) is not None]
        if scored:
            log_metric(f"{folder}/reward", sum(scored) / len(scored))
        log_metric(f"{folder}/failed", 1 - len(scored) / len(played))
        for name, values in (("length", lengths), ("illegal_actions", illegal)):
            if values is not None:
                log_metric(f"{folder}/{name}", sum(values[index] for index in played) / len(played))


def _raise_if_most_failed(errors: Sequence[OpenEnvError | None]) -> None:
    found = [error for error in errors if error is not None]
    if len(found) * 2 > len(errors):
        raise found[0]
