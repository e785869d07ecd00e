"""Agents, and the one function that plays episodes with them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from openenv.records.answers import AnswerRule
from openenv.train.episodes.budget import NO_BUDGET, Budget
from openenv.train.episodes.failure_watch import FailureWatch
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.rollout.play import Play, Shown
from openenv.train.rollout.sessions import Sessions
from openenv.train.tasks.task_choice import NumberedTask

__all__ = ["Agent", "BatchAgent", "EndedEpisode", "EpisodeRecorder", "play"]

EndedEpisode = tuple[Play, PlayedEpisode]
"""Episode by the rules, and the same with its number and its conversation."""


class Agent(Protocol):
    """Agent that plays episodes: players without a model, a model loaded here, or a model behind an address."""

    def batches(self, tasks: Sequence[NumberedTask], sessions: Sessions) -> Iterator[Sequence[EndedEpisode]]:
        """Play one episode for each task, and yield those that end together, under the tasks' numbers."""
        ...


class EpisodeRecorder(Protocol):
    """Recorder of episodes."""

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return a reset's parameters, with an ``episode_id``, or their own, where its episode is to be recorded."""
        ...

    def add(self, episodes: Sequence[EndedEpisode]) -> None:
        """Record episodes that ended together, without an error where that fails: play continues without a record."""
        ...


def play(
    agent: Agent, tasks: Iterable[NumberedTask], sessions: Sessions, recorder: EpisodeRecorder | None = None
) -> Iterator[PlayedEpisode]:
    """Play one episode for each task, and yield each as it ends; one that the environment failed in has the error.

    Raises:
        EnvironmentFailedError: More than half of the last 32 episodes failed, beyond chance.
        OpenEnvError: A model can't be reached.

    Example::

        for played in play(agent, enumerate([{"seed": 1}, {"seed": 2}]), sessions):
            print(played.index, played.episode.reward, played.episode.error)
    """
    # An agent's random choices depend on its seed and the episode's number, and not on the episodes beside it.
    named = [(number, task if recorder is None else recorder.named(task)) for number, task in tasks]
    watch = FailureWatch()
    for batch in agent.batches(named, sessions):
        watch.add(played.episode for _, played in batch)
        if recorder is not None:
            recorder.add(batch)
        for _, played in batch:
            yield played


class BatchAgent(ABC):
    """Agent in as many episodes at once as there are sessions, which are stepped together."""

    def __init__(self, max_turns: int, shown: Shown, rule: AnswerRule, budget: Budget = NO_BUDGET) -> None:
        self._max_turns = max_turns
        self._shown = shown
        self._rule = rule
        self._budget = budget

    def batches(self, tasks: Sequence[NumberedTask], sessions: Sessions) -> Iterator[list[EndedEpisode]]:
        """Play one episode for each task, and yield those that end together, under the tasks' numbers."""
        size = max(1, len(sessions) or len(tasks))
        for start in range(0, len(tasks), size):
            batch = tasks[start : start + size]
            plays = [
                Play(
                    task,
                    number=slot,
                    max_turns=self._max_turns,
                    shown=self._shown,
                    rule=self._rule,
                    budget=self._budget,
                )
                for slot, (_, task) in enumerate(batch)
            ]
            self._act_in(plays, batch, sessions)
            yield [(play, self._played(number, play)) for (number, _), play in zip(batch, plays, strict=True)]

    @abstractmethod
    def _act_in(self, plays: Sequence[Play], tasks: Sequence[NumberedTask], sessions: Sessions) -> None:
        """Play episodes together, all to their ends."""

    @abstractmethod
    def _played(self, number: int, play: Play) -> PlayedEpisode:
        """Return an episode with its conversation."""
