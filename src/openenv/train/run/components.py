"""Learning from components of the reward: a reward function for each, which the trainer normalises by itself."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.core.reset_check import nearest_name
from openenv.records.scores import Score
from openenv.train.agents.policy import Policy
from openenv.train.evaluation.scores import random_agent, score, scripted_agent
from openenv.train.rewards.environment_reward import ComponentReward
from openenv.train.rollout.sessions import Sessions
from openenv.train.settings.config import TrainConfig

__all__ = [
    "check_component_names",
    "check_components",
    "component_rewards",
    "illegal_actions",
    "weighted_rewards",
]

# Episodes of each player without a model in which a misspelt component is looked for.
_FEW = 8


def component_rewards(config: TrainConfig, episodes: Callable[..., Any]) -> tuple[list[Any], list[float]]:
    """Return a run's reward functions and weights: of its components, and of illegal actions if there is a penalty."""
    names = list(config.reward_components)
    # The first function calls `episodes` once for each batch, to log how the episodes went.
    functions: list[Any] = [
        ComponentReward(name, episodes=episodes if number == 0 else None) for number, name in enumerate(names)
    ]
    weights = list(config.reward_components.values())
    if config.illegal_penalty:
        functions.append(illegal_actions)
        weights.append(-config.illegal_penalty)
    return functions, weights


def illegal_actions(
    environment_reward: Sequence[float | None], illegal_actions: Sequence[int], **_: Any
) -> list[float | None]:
    """TRL's reward function: the illegal actions of each episode, ``None`` where the environment failed."""
    return [
        None if reward is None else float(count)
        for reward, count in zip(environment_reward, illegal_actions, strict=True)
    ]


def weighted_rewards(config: TrainConfig, fields: Mapping[str, Sequence[Any]]) -> list[float | None]:
    """Return the weighted sum of each episode's components, less the penalty for illegal actions."""
    weights = config.reward_components.items()
    episodes = zip(fields["environment_reward"], fields["reward_components"], fields["illegal_actions"], strict=True)
    return [
        None
        if reward is None
        else sum(weight * components.get(name, 0.0) for name, weight in weights) - config.illegal_penalty * illegal
        for reward, components, illegal in episodes
    ]


def check_component_names(config: TrainConfig, sessions: Sessions, policy: Policy) -> None:
    """Refuse misspelt components after a few episodes of the players without a model, before anything is scored."""
    if not config.reward_components:
        return
    few = config.model_copy(update={"eval_episodes": min(_FEW, config.eval_episodes)})
    agents = (random_agent(policy, sessions, few), scripted_agent(sessions, few))
    known = _names_in(score(agent, sessions, few) for agent in agents if agent is not None)
    # A name that is like none may be of a component that few episodes score: `check_components` knows of it after the
    # evaluations.
    for name in config.reward_components:
        if name not in known and nearest_name(name, known):
            raise _not_scored(name, known)


def check_components(config: TrainConfig, scores: Mapping[str, Score]) -> None:
    """Refuse components that no episode before the training has: misspelt, or with nothing to learn from."""
    known = _names_in(scores.values())
    for name in config.reward_components:
        if name not in known:
            raise _not_scored(name, known)


def _names_in(scores: Iterable[Score]) -> list[str]:
    return list(dict.fromkeys(name for score in scores for name in score.reward_components))


def _not_scored(name: str, known: list[str]) -> ConfigurationError:
    near = nearest_name(name, known)
    instead = f" Did you mean {near!r}?" if near else ""
    found = ", ".join(known) or "none, so the environment may have no rubric"
    return ConfigurationError(
        f"reward_components: no episode before the training has a score of {name!r}.{instead} "
        f"Components with scores: {found}."
    )
