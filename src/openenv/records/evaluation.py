"""Results of an evaluation: estimates with their intervals, each task's attempts, and ``results.json``."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter, ValidationError

from openenv.core.documents import read_json, write_json
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.results import ParticipantUsage
from openenv.records.answers import AnswerCounts, AnswerRule
from openenv.records.prices import Spending

__all__ = ["Comparison", "Estimate", "Evaluation", "LegalScores", "TaskGroup", "TaskResult", "read_evaluation"]


@dataclass(frozen=True)
class Estimate:
    """Mean over tasks.

    Attributes:
        value: The mean.
        low: Lower end of its 95% confidence interval; ``None`` for a single task.
        high: Upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        return self.text()

    def text(self, sign: str = "") -> str:
        """Return the mean with its interval, with ``+`` as the sign also that of numbers above 0."""
        mean = f"{self.value:{sign}.3f}"
        if self.low is None or self.high is None:
            return mean
        return f"{mean} [{self.low:{sign}.3f}, {self.high:{sign}.3f}]"


@dataclass(frozen=True)
class TaskResult:
    """Attempts at one task.

    Attributes:
        task: Arguments of its resets.
        rewards: The reward of each attempt in which neither the environment nor the model failed.
        successes: Number of those that succeeded.
        failed: Number of attempts in which the environment or the model failed; they count for nothing.
        mean_reward: Mean over the attempts that count, as an estimate; ``None`` without any, and in results of earlier
            versions.
    """

    task: dict[str, Any]
    rewards: list[float]
    successes: int
    failed: int = 0
    mean_reward: Estimate | None = None

    @property
    def mean(self) -> float:
        """Mean reward of the attempts that count; there has to be an attempt."""
        return fmean(self.rewards)


@dataclass(frozen=True)
class LegalScores:
    """Scores of a player by its legal answers alone.

    Attributes:
        episodes: Episodes without an illegal answer.
        mean_reward: Mean reward of these; ``None`` without any.
        pass_at: pass@k, by ``k``, where an attempt with an illegal answer is no success.
    """

    episodes: int
    mean_reward: Estimate | None
    pass_at: dict[int, Estimate]


@dataclass(frozen=True)
class TaskGroup:
    """Scores of the tasks with one value of ``difficulty`` or ``group``.

    Attributes:
        tasks: Number of tasks of which an attempt counts.
        mean_reward: Mean reward of an episode.
        success: Share of the attempts that succeeded.
    """

    tasks: int
    mean_reward: Estimate
    success: Estimate


@dataclass(frozen=True)
class Comparison:
    """Difference from an earlier evaluation, task by task.

    Attributes:
        before: The earlier player and its environment, in words.
        common: Number of tasks of which an attempt counts in both.
        other: Number of tasks of which an attempt counts in only one of them.
        reward_difference: Mean over the common tasks of the later mean reward less the earlier one; ``None`` without
            any.
        fixed: Tasks that are solved now and were not: half of the attempts or more succeeded.
        regressed: Tasks that were solved and are not now.
        chance: Probability of numbers of fixed and regressed tasks as different as these or more if the players were
            equally good (exact McNemar test, two-sided).
        settings: Settings that are not the same in both, each with its earlier and its present value.
    """

    before: str
    common: int
    other: int
    reward_difference: Estimate | None
    fixed: list[dict[str, Any]]
    regressed: list[dict[str, Any]]
    chance: float
    settings: dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Evaluation:
    """Results of a player.

    Attributes:
        environment: Name of the environment.
        player: Player, in words.
        samples: Attempts at each task.
        success_reward: The reward with which an attempt is a success; rounding does not count.
        mean_reward: Mean reward of an episode.
        pass_at: pass@k, by ``k``; without those for which no task has enough attempts.
        pass_hat: pass^k alike, from 2 attempts on; attempts in which the environment or the model failed are none.
        mean_length: Mean number of actions in an episode.
        illegal_actions: Mean number of illegal actions in an episode.
        tasks: Result of each task.
        first_failure: Message of the first failure of the environment or the model; ``None`` without any.
        temperature: Of the model's sampling, 0 where it was greedy; ``None`` for a player without a model.
        greedy: The same with the most likely tokens, one attempt at each task, for the model of a training run.
        reward_components: Mean of each component's scores, summed over an episode, by name; without the episodes in
            which the component was not called.
        rule: How answers were read, and what an illegal one did; ``None`` in results of earlier versions.
        answers: Numbers of answers, and how many were illegal, cut off or without a call; ``None`` as above.
        legal: Scores by legal answers alone; ``None`` as above.
        warnings: What makes the figures doubtful, each in a sentence, by the name of the check.
        failures: Number of episodes that count for nothing, by the kind of their failure.
        spending: Tokens, time and price of all episodes, failed ones included; ``None`` in results of earlier versions.
        participants: What the environment's participants have used in all episodes, such as a user or an opponent, by
            name; no part of ``spending``.
        limits: Number of episodes that a limit ended, by its name; they count with the reward that they had.
        groups: Scores by the values of ``difficulty`` and of ``group``, where tasks have two or more.
        comparison: Difference from an earlier evaluation, where one was named.
    """

    environment: str
    player: str
    samples: int
    success_reward: float
    mean_reward: Estimate
    pass_at: dict[int, Estimate]
    mean_length: float
    illegal_actions: float
    tasks: list[TaskResult]
    first_failure: str | None = None
    temperature: float | None = None
    greedy: "Evaluation | None" = None
    reward_components: dict[str, Estimate] = field(default_factory=dict)
    rule: AnswerRule | None = None
    answers: AnswerCounts | None = None
    legal: LegalScores | None = None
    warnings: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    spending: Spending | None = field(default=None, compare=False)
    participants: dict[str, ParticipantUsage] = field(default_factory=dict, compare=False)
    limits: dict[str, int] = field(default_factory=dict)
    pass_hat: dict[int, Estimate] = field(default_factory=dict)
    groups: dict[str, dict[str, TaskGroup]] = field(default_factory=dict)
    comparison: Comparison | None = None

    @property
    def episodes(self) -> int:
        """Episodes that count."""
        return sum(len(task.rewards) for task in self.tasks)

    @property
    def failed(self) -> int:
        """Episodes in which the environment or the model failed."""
        return sum(task.failed for task in self.tasks)

    @property
    def reward_name(self) -> str:
        """Name of the mean reward, with how a model's tokens were sampled."""
        if self.temperature is None:
            return "reward"
        return f"reward, {'sampled' if self.temperature else 'greedy'}"

    def rows(self) -> list[dict[str, Any]]:
        """Return each estimate with its ``name`` and its ``kind``: ``reward``, ``component`` or ``chance``."""
        rows = [("reward", self.reward_name, self.mean_reward)]
        if self.greedy is not None:
            rows.append(("reward", self.greedy.reward_name, self.greedy.mean_reward))
        rows += [("component", name, estimate) for name, estimate in self.reward_components.items()]
        rows += self.chance_rows()
        rows += self.legal_rows()
        rows += self.group_rows()
        return [{"kind": kind, "name": name, **asdict(estimate)} for kind, name, estimate in rows]

    def chance_rows(self) -> list[tuple[str, str, Estimate]]:
        """Return kind, name and estimate of pass@k and pass^k."""
        rows = [("chance", f"pass@{k}", estimate) for k, estimate in self.pass_at.items()]
        return rows + [("chance", f"pass^{k}", estimate) for k, estimate in self.pass_hat.items()]

    def group_rows(self) -> list[tuple[str, str, Estimate]]:
        """Return kind, name and estimate of the mean reward and the share of successes of each group of tasks."""
        rows = []
        for key, groups in self.groups.items():
            for value, group in groups.items():
                rows.append(("reward", f"reward, {key} {value}", group.mean_reward))
                rows.append(("chance", f"success, {key} {value}", group.success))
        return rows

    def legal_rows(self) -> list[tuple[str, str, Estimate]]:
        """Return kind, name and estimate of each score by legal answers alone; none where no answer was illegal."""
        if self.legal is None or self.answers is None or not self.answers.illegal:
            return []
        rows = [("chance", f"pass@{k} by legal answers", estimate) for k, estimate in self.legal.pass_at.items()]
        mean = self.legal.mean_reward
        return rows if mean is None else [("reward", "reward by legal answers", mean), *rows]

    def save(self, path: Path) -> None:
        """Write everything as JSON, whole or not at all."""
        write_json(path, {**asdict(self), "episodes": self.episodes, "failed": self.failed})


_EVALUATION = TypeAdapter(Evaluation)


def read_evaluation(folder: Path) -> tuple[Evaluation | None, str | None]:
    """Read the results of an evaluation, of this version or an earlier one, or the reason why they can't be read.

    Returns:
        The results, ``None`` where there are none yet or they can't be read; and why they can't.
    """
    file = folder / "results.json"
    if not file.is_file():
        return None, None
    try:
        return _EVALUATION.validate_python(read_json(file)), None
    except ConfigurationError as error:
        return None, str(error)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return None, (
            f"{file}: expected the results of openenv eval, but {where or 'the file'} is not as they have it "
            f"({first['msg']}). The same openenv eval command with --output {folder} writes them anew."
        )
