"""Episodes of a random, a weak and the scripted player on the same tasks, which the statistical checks compare."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from openenv.records.evaluation import Estimate
from openenv.train.evaluation.intervals import mean_estimate
from openenv.train.settings.config import TrainConfig
from openenv.validation.findings import LeftOutError
from openenv.validation.semantic.episodes import Clock, GradedEpisode, Player, play_player
from openenv.validation.semantic.graded import FEW_STEPS, MAX_STEPS, GradedEnvironment
from openenv.validation.statistical.players import BlindPlayer, DrawnPlayer, Pool, WeakPlayers

RANDOM, WEAK, ORACLE = "random", "weak", "scripted"
PLAYERS = (RANDOM, WEAK, ORACLE)
GROUP_SIZE: int = TrainConfig.model_fields["group_size"].default
"""Episodes of a group that the trainer compares with each other, by default."""

MIN_TASKS = 5
_ATTEMPTS = {RANDOM: GROUP_SIZE, WEAK: 4}
_FIRST_SEED = 1001
_PILOT_TASKS, _PILOT_ATTEMPTS, _FACTOR = 8, 2, 9
_MAX_REFUSALS = 20
_MIN_VALUES = 3
# Share of random actions of the weak player; others are tried while it is as weak as random, or as good as scripted.
_SHARE, _MAX_SHARES = 0.5, 5
_NEAR = 0.1
_NO_PLAYER = (
    "the environment has no scripted player to compare with; write player.py with make_player(seed), and name it in "
    "openenv.yaml: `player: player:make_player`"
)


@dataclass
class SampledTask:
    """Task that all players played.

    Attributes:
        task: Arguments of its reset.
        episodes: Episodes of each player on it, by the player's name.
        again: A second episode of the scripted player; of a listed task, with another seed. ``None`` without one.
    """

    task: Mapping[str, Any]
    episodes: dict[str, list[GradedEpisode]] = field(default_factory=lambda: {name: [] for name in PLAYERS})
    again: GradedEpisode | None = None

    def rewards(self, player: str) -> list[float]:
        """Return the total reward of each episode of a player."""
        return [episode.total for episode in self.episodes[player]]

    def mean(self, player: str) -> float:
        """Return a player's mean reward."""
        return fmean(self.rewards(player))

    @property
    def is_whole(self) -> bool:
        """Return whether each player has played it."""
        return all(self.episodes.values())


class PlayerSample:
    """Episodes of all players on the same tasks, which are played when they are first needed."""

    def __init__(self, graded: GradedEnvironment) -> None:
        self.graded = graded
        # Seconds that the episodes of each player took, and the fault of its last episode that failed.
        self._spent = dict.fromkeys(PLAYERS, 0.0)
        self._faults: dict[str, str] = {}
        self._further_s = 0.0
        # Set with the sample: the tasks, what random actions are drawn from, and the weak player's share of them.
        self._sampled: list[SampledTask] = []
        self._pool: Pool = {}
        self._share = _SHARE

    @property
    def tasks(self) -> list[SampledTask]:
        """The tasks that all players have played, with their episodes.

        Raises:
            LeftOutError: There is no scripted player, or too few tasks were played.
        """
        if self._reason is not None:
            raise LeftOutError(self._reason)
        return self._sampled

    @cached_property
    def _reason(self) -> str | None:
        """Reason why there is no sample; ``None`` where there is one, which is played for that."""
        try:
            self._sampled = self._played()
        except LeftOutError as error:
            return str(error)
        return None

    def _played(self) -> list[SampledTask]:
        if self.graded.make_player is None:
            raise LeftOutError(_NO_PLAYER)
        tasks = [SampledTask(task) for task in self._all_tasks[: self._first_tasks]]
        self._play(tasks, ORACLE, 1)
        tasks = self._played_by(ORACLE, tasks)
        self._pool = self._drawn_from(tasks)
        self._play(tasks, RANDOM, 1)
        tasks = self._played_by(RANDOM, tasks)
        self._share = self._weak_share(tasks[:_PILOT_TASKS])
        self._play(tasks, WEAK, 1)
        tasks = self._played_by(WEAK, tasks)
        for player, attempts in _ATTEMPTS.items():
            self._play(tasks, player, attempts - 1)
        self._play_again(tasks)
        return tasks

    def _play_again(self, tasks: Sequence[SampledTask]) -> None:
        """Play tasks once more with the scripted player; listed tasks with another seed."""
        clock = Clock(self.graded.limits.play_s / 2)
        for task in tasks:
            if clock.is_over:
                return
            again = {**task.task, "seed": task.task["seed"] + 1} if self.graded.has_tasks else task.task
            episode = self._episode(again, ORACLE, 0, None)
            if self._is_whole(episode):
                task.again = episode

    def _drawn_from(self, tasks: Sequence[SampledTask]) -> Pool:
        """Return the values of the scripted player's actions by tool and field, for tools with an open field."""
        values: dict[str, dict[str, dict[str, Any]]] = {}
        for task in tasks:
            for name, arguments in self.graded.calls(task.episodes[ORACLE][0]):
                for argument, value in arguments.items():
                    values.setdefault(name, {}).setdefault(argument, {})[json.dumps(value)] = value
        is_open = {
            each.tool
            for each in self.graded.fields
            for seen in [values.get(each.tool, {})]
            if len(seen.get(each.name, ())) >= _MIN_VALUES
        }
        return {
            name: {field: list(seen.values()) for field, seen in fields.items()}
            for name, fields in values.items()
            if name in is_open
        }

    @property
    def weak_share(self) -> float:
        """Share of the weak player's actions that are drawn at random."""
        return self._share

    @property
    def first_tasks(self) -> list[SampledTask]:
        """The tasks that were not added for a difference: those with several attempts."""
        return self.tasks[: self._first_tasks]

    @property
    def _first_tasks(self) -> int:
        return self.graded.limits.tasks

    @cached_property
    def _all_tasks(self) -> list[Mapping[str, Any]]:
        """The tasks, and those that may be added; of listed tasks, each part is spread over all of them."""
        count = _FACTOR * self._first_tasks
        if not self.graded.has_tasks:
            return [{"seed": _FIRST_SEED + number} for number in range(count)]
        first = self.graded.listed_tasks(self._first_tasks)
        return [*first, *(task for task in self.graded.listed_tasks(count) if task not in first)]

    def extend(self) -> bool:
        """Add as many tasks as there were at first, played once by each player; return whether there were any."""
        further = [SampledTask(task) for task in self._all_tasks[len(self.tasks) :][: self._first_tasks]]
        start = time.monotonic()
        for task in further:
            if self._further_s + time.monotonic() - start > self.graded.limits.play_s:
                break
            for player in PLAYERS:
                self._play_once(task, player, 0)
        self._further_s += time.monotonic() - start
        added = [task for task in further if task.is_whole]
        self.tasks.extend(added)
        return bool(added)

    def estimate(self, player: str) -> Estimate:
        """Estimate a player's mean reward, over all tasks."""
        return mean_estimate([task.mean(player) for task in self.tasks])

    def difference(self, better: str, worse: str) -> Estimate:
        """Estimate by how much a player earns more than another one on the same task."""
        return mean_estimate([task.mean(better) - task.mean(worse) for task in self.tasks])

    @property
    def gap(self) -> float:
        """Mean reward of the scripted player above that of the random one."""
        return self.difference(ORACLE, RANDOM).value

    def play_blind(self, task: Mapping[str, Any], actions: Sequence[Any]) -> GradedEpisode:
        """Play given actions as dicts, whatever is shown; the last one is repeated to the end."""
        longest = max(len(each.episodes[ORACLE][0].actions) for each in self.tasks)
        return self._play_plain(task, BlindPlayer(actions), max(2 * longest, len(actions)))

    @cached_property
    def _max_steps(self) -> int:
        """Steps after which an episode is left: few where an episode never ends by itself."""
        whole = [episode for episode in self.graded.oracle if episode.fault is None]
        return MAX_STEPS if all(episode.is_over for episode in whole) else FEW_STEPS

    def _play(self, tasks: Sequence[SampledTask], player: str, attempts: int) -> None:
        """Play tasks, each once before one is played again, as long as there is time."""
        for _ in range(attempts):
            for task in tasks:
                if self._spent[player] > self.graded.limits.play_s:
                    return
                start = time.monotonic()
                self._play_once(task, player, len(task.episodes[player]))
                self._spent[player] += time.monotonic() - start

    def _play_once(self, task: SampledTask, player: str, attempt: int, share: float | None = None) -> None:
        episode = self._episode(task.task, player, attempt, share)
        if episode.fault is not None:
            self._faults[player] = episode.fault
        elif self._is_whole(episode):
            task.episodes[player].append(episode)

    def _is_whole(self, episode: GradedEpisode) -> bool:
        """Return whether an episode was played to its end or its limits, and not cut by the time."""
        refusals = sum(answer.refusal is not None for answer in episode.answers)
        is_long = len(episode.actions) >= self._max_steps or refusals > _MAX_REFUSALS
        return episode.fault is None and (episode.is_over or is_long)

    def _episode(self, task: Mapping[str, Any], player: str, attempt: int, share: float | None) -> GradedEpisode:
        if player == RANDOM:
            seed = int(task.get("index", task["seed"])) + 100_003 * attempt
            return self._play_plain(task, DrawnPlayer(self.graded.tools, self._pool, seed))
        make_player = self.graded.make_player
        assert make_player is not None
        if player == ORACLE:
            return self.graded.play_scripted(task, make_player, self._max_steps)
        made = WeakPlayers(self.graded, make_player, self._pool, self._share if share is None else share, attempt)
        return self.graded.play_scripted(task, made, self._max_steps, _MAX_REFUSALS)

    def _play_plain(self, task: Mapping[str, Any], player: Player, max_steps: int | None = None) -> GradedEpisode:
        limits, steps = self.graded.limits, max_steps or self._max_steps
        return play_player(self.graded.client, task, player, steps, limits.answer_s, limits.play_s, _MAX_REFUSALS)

    def _played_by(self, player: str, tasks: Sequence[SampledTask]) -> list[SampledTask]:
        played = [task for task in tasks if task.episodes[player]]
        if len(played) < min(MIN_TASKS, len(tasks)) or (len(played) < len(tasks) / 2 and player in self._faults):
            fault = self._faults.get(player, f"no time was left within {self.graded.limits.play_s:g} s")
            raise LeftOutError(f"the {player} player has played {len(played)} of {len(tasks)} tasks: {fault}")
        if len(played) < MIN_TASKS:
            raise LeftOutError(f"the environment has {len(tasks)} tasks; an interval needs {MIN_TASKS}")
        return played

    def _weak_share(self, tasks: Sequence[SampledTask]) -> float:
        """Return the share of random actions with which a player is between random and scripted on some tasks."""
        floor, top = (fmean(task.mean(player) for task in tasks) for player in (RANDOM, ORACLE))
        low, share, high = 0.0, _SHARE, 1.0
        for _ in range(_MAX_SHARES):
            level = self._level_of(tasks, share, floor, top)
            if level is None or _NEAR <= level <= 1 - _NEAR or level > 1 + _NEAR:  # better than scripted is a defect
                return share
            low, high = (low, share) if level < _NEAR else (share, high)
            share = (low + high) / 2
        return share

    def _level_of(self, tasks: Sequence[SampledTask], share: float, low: float, high: float) -> float | None:
        """Return how far a weak player is on the way from random to scripted; ``None`` where there is no such way."""
        pilots = [SampledTask(task.task) for task in tasks]
        for attempt in range(_PILOT_ATTEMPTS):
            for task in pilots:
                self._play_once(task, WEAK, attempt, share)
        rewards = [reward for task in pilots for reward in task.rewards(WEAK)]
        return (fmean(rewards) - low) / (high - low) if rewards and high > low else None
