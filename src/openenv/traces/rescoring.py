"""Scores of stored episodes by another rubric, without playing them again."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from pydantic import BaseModel, ConfigDict

from openenv.auto.discovery import find_environment
from openenv.auto.package import EnvironmentPackage
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.core.rubrics import Rubric
from openenv.core.rubrics.base import tick
from openenv.core.wire.results import component_totals
from openenv.traces.episodes import Entry, EpisodeRecord, Filter, Score
from openenv.traces.reading import TraceFile

__all__ = ["StepScore", "rescore", "score", "score_of", "scored_steps"]

AnyRubric = Rubric | Callable[[Any, Any], Any]
"""A rubric, or a function of an action and an observation that returns a number, or a coroutine of one."""


@dataclass(frozen=True)
class StepScore:
    """Score of a step.

    Attributes:
        reward: The rubric's score.
        components: The scores of its components by name.
    """

    reward: float
    components: Mapping[str, float]


class _Stored(BaseModel):
    """Action or observation whose class is not installed here; its fields are attributes."""

    model_config = ConfigDict(extra="allow")


def rescore(
    traces: TraceFile, rubric: AnyRubric, name: str | None = None, where: Filter | None = None, limit: int | None = None
) -> list[tuple[str, Score]]:
    """Score stored episodes by another rubric, and store the scores beside the rewards that the environment gave.

    The rubric is given each step's action and observation as objects of the environment's classes if the environment is
    installed, else as objects with the recorded fields. State that an environment does not show is not on record.

    Args:
        traces: The file of traces.
        rubric: The rubric; a ``Rubric`` is reset before each episode.
        name: Name of the scores; by default that of the rubric's class or function. Scores of the same name are
            replaced.
        where: Filter; by default all episodes. Those whose entries are not all on record are left out.
        limit: Maximum number of episodes, the newest.

    Returns:
        The ids of the episodes with their scores.

    Raises:
        ConfigurationError: The file can't be read or written.
        pydantic.ValidationError: A recorded action or observation does not fit the environment's class any more.

    Example::

        class Brief(Rubric):
            def forward(self, action, observation):
                return 1.0 if len(action.message) < 20 else 0.0

        with traces.open("traces.db") as file:
            for episode, given in traces.rescore(file, Brief()):
                print(episode, file.episode(episode).reward, given.reward)
    """
    return asyncio.run(_rescored(traces, rubric, name or _name_of(rubric), where, limit))


async def _rescored(
    traces: TraceFile, rubric: AnyRubric, name: str, where: Filter | None, limit: int | None
) -> list[tuple[str, Score]]:
    scores = []
    for record in traces.records(where, limit):
        given = await score(record, rubric, name)
        traces.add_score(record.episode.id, given)
        scores.append((record.episode.id, given))
    return scores


async def score(record: EpisodeRecord, rubric: AnyRubric, name: str | None = None) -> Score:
    """Score one episode by a rubric.

    Args:
        record: The episode.
        rubric: The rubric; a ``Rubric`` is reset before the episode.
        name: Name of the score; by default that of the rubric's class or function.
    """
    name = name or _name_of(rubric)
    return score_of(name, await scored_steps(record, rubric, _package_of(record.episode.environment)))


async def scored_steps(
    record: EpisodeRecord, rubric: AnyRubric, package: EnvironmentPackage | None, *, with_rewards: bool = True
) -> list[StepScore]:
    """Score each step of an episode by a rubric.

    Args:
        record: The episode.
        rubric: The rubric; a ``Rubric`` is reset before the episode.
        package: The environment, of whose classes actions and observations are; ``None`` where it is not installed.
        with_rewards: Whether observations have the reward that the environment gave.
    """
    read = _Reader(package, with_rewards=with_rewards)
    if isinstance(rubric, Rubric):
        rubric.reset()
    steps: list[StepScore] = []
    for number, entry in enumerate(record.steps, 1):
        begun = tick()
        try:
            given = rubric(read.action(entry), read.observation(entry))
            reward = float(await given if isawaitable(given) else given)
        except Exception as error:
            error.add_note(f"while the rubric {_name_of(rubric)} scored step {number} of {record.episode.id}")
            raise
        steps.append(StepScore(reward, rubric.component_scores(begun) if isinstance(rubric, Rubric) else {}))
    return steps


def score_of(name: str, steps: Sequence[StepScore]) -> Score:
    """Return the score of an episode by those of its steps, now."""
    rewards = [step.reward for step in steps]
    return Score(name, time.time(), sum(rewards), rewards, component_totals(step.components for step in steps))


class _Reader:
    """Maker of objects of recorded actions and observations."""

    def __init__(self, package: EnvironmentPackage | None, *, with_rewards: bool) -> None:
        self._outcome = ("reward", "done", "metadata") if with_rewards else ("done", "metadata")
        self._action = _Stored if package is None else package.action_class()
        self._observation = _Stored if package is None else package.observation_class()

    def action(self, entry: Entry) -> Any:
        """Return a step's action."""
        return self._action.model_validate(entry.request) if isinstance(entry.request, dict) else entry.request

    def observation(self, entry: Entry) -> Any:
        """Return a step's observation, with its reward and done flag."""
        observation = entry.observation
        if not isinstance(observation, dict):
            return observation
        outcome = {name: entry.answer[name] for name in self._outcome if name in entry.answer}
        return self._observation.model_validate({**observation, **outcome})


def _package_of(environment: str) -> EnvironmentPackage | None:
    try:
        return find_environment(environment)
    except EnvironmentNotFoundError:
        return None


def _name_of(rubric: AnyRubric) -> str:
    return type(rubric).__name__ if isinstance(rubric, Rubric) else getattr(rubric, "__name__", type(rubric).__name__)
