"""How well does a model or a player do? Mean reward and pass@k over tasks, with confidence intervals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError
from openenv.core.rubrics.bounds import reaches, reward_range
from openenv.train.agents.agent_episodes import AgentEpisodes, open_agent
from openenv.train.dataset.collecting import leave_out_failed
from openenv.train.dataset.collection import Collection
from openenv.train.dataset.play_progress import PlayProgress
from openenv.train.dataset.run_traces import RunTraces
from openenv.train.evaluation.intervals import NO_BOUNDS, Estimate, mean_estimate, share_estimate
from openenv.train.evaluation.pass_at_k import pass_at_k
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import evaluation_seeds
from openenv.train.tasks.task_choice import check_number, named_tasks

__all__ = ["Evaluation", "TaskResult", "evaluate"]

DEFAULT_NUM_TASKS = 100


@dataclass(frozen=True)
class TaskResult:
    """What came of all attempts at one task.

    Attributes:
        task: What its resets were passed.
        rewards: The reward of each attempt in which the environment did not fail.
        successes: Those among them that succeeded.
        failed: Attempts in which the environment failed; they count for nothing.
    """

    task: dict[str, Any]
    rewards: list[float]
    successes: int
    failed: int = 0

    @property
    def mean_reward(self) -> float:
        """Mean over the attempts that count; there has to be one."""
        return fmean(self.rewards)

    def pass_at(self, k: int) -> float:
        """Estimate pass@k; ``k`` attempts have to count."""
        return pass_at_k(len(self.rewards), self.successes, k)

    def as_json(self, bounds: tuple[float, float] = NO_BOUNDS) -> dict[str, Any]:
        """Return the attributes by name, and an estimate of the mean reward from the attempts at this task."""
        mean = asdict(mean_estimate(self.rewards, bounds)) if self.rewards else None
        return {**asdict(self), "mean_reward": mean}


@dataclass(frozen=True)
class Evaluation:
    """How well a player did.

    Attributes:
        environment: What was played.
        player: Who played, in words.
        samples: Attempts at each task.
        success_reward: The reward with which an attempt is a success; rounding does not count.
        mean_reward: Mean reward of an episode.
        pass_at: pass@k, by ``k``; without those for which no task has enough attempts.
        mean_length: Mean number of actions in an episode.
        illegal_actions: Mean number of illegal actions in an episode.
        tasks: What came of each task.
        first_failure: What the first failure of the environment said; ``None`` where there was none.
        temperature: Of the model's sampling, 0 where it was greedy; ``None`` for a player without a model.
        greedy: The same with the most likely tokens, one attempt at each task, for the model of a training run.
        reward_components: Mean of each component's scores, summed over an episode, by name; without the episodes in
            which the component was not called.
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

    @property
    def episodes(self) -> int:
        """Episodes that count."""
        return sum(len(task.rewards) for task in self.tasks)

    @property
    def failed(self) -> int:
        """Episodes in which the environment failed."""
        return sum(task.failed for task in self.tasks)

    def save(self, path: Path) -> None:
        """Write everything as JSON, whole or not at all; of each task its mean reward with its interval, too."""
        bounds = reward_range(chain.from_iterable(task.rewards for task in self.tasks))
        tasks = [task.as_json(bounds) for task in self.tasks]
        fields = {**asdict(self), "tasks": tasks, "episodes": self.episodes, "failed": self.failed}
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(fields, indent=1), "utf-8")
        draft.replace(path)


def evaluate(
    settings: PlaySettings,
    output: Path,
    *,
    num_tasks: int | None = None,
    samples: int = 1,
    ks: Sequence[int] = (),
    success_reward: float = 1.0,
    sessions: int = 16,
    console: Console | None = None,
) -> Evaluation:
    """Play every task some times and say how well it went.

    What is left open for the model of a training run is as the run evaluates it: the same figures for the same seeds.

    A folder that was begun with the same settings is gone on with; its ``results.json`` is the evaluation.

    Args:
        settings: Which environment is played, by whom and how. Without tasks, the episodes' seeds are those that no
            training has.
        output: The folder for the episodes, a `Collection`, and ``results.json``.
        num_tasks: How many tasks; by default all that are named; else as many as the model's run has; else 100.
        samples: Attempts at each task.
        ks: The values of ``k``; by default 1 and ``samples``.
        success_reward: The reward with which an attempt is a success.
        sessions: Episodes that are played at once.
        console: Where progress is shown; by default the terminal.

    Returns:
        The evaluation.

    Raises:
        ConfigurationError: A number is below 1, a ``k`` is above ``samples``, or the folder holds something else.
        EnvironmentFailedError: The environment failed in every episode.
        OpenEnvError: The environment or the model are not as they must be; the subclass says how.

    Example::

        evaluation = evaluate(PlaySettings(environment="wordle", player="scripted"), Path("evals/wordle"), num_tasks=50)
        print(evaluation.mean_reward)
    """
    _check(samples, ks, num_tasks)
    console = console or Console()
    most = _number_of_the_run(settings)
    has_greedy = settings.asks_for_greedy_too()
    settings = settings.with_defaults()
    # How to play decides what episodes there are; what counts as success does not.
    collection = Collection(output)
    collection.check_free()
    with (
        RunTraces(collection.traces, settings) as traces,
        open_agent(settings, sessions, traces.env_vars) as source,
    ):
        tasks = _tasks(settings, num_tasks, most, source)
        collection = Collection.open(output, {**settings.decisive(), "samples": samples})
        _play(collection, settings, source, traces, tasks, samples, console)
    evaluation = _evaluation(collection, settings, tasks, samples, ks or sorted({1, samples}), success_reward)
    if has_greedy:
        greedy = evaluate(
            settings.model_copy(update={"temperature": 0.0}),
            output / "greedy",
            num_tasks=len(tasks),
            success_reward=success_reward,
            sessions=sessions,
            console=console,
        )
        evaluation = replace(evaluation, greedy=greedy)
    evaluation.save(output / "results.json")
    return evaluation


def _number_of_the_run(settings: PlaySettings) -> int | None:
    """Return how many tasks the run of the model evaluates it on, unless other tasks are named."""
    own = settings.own_config()
    return own.eval_episodes if own is not None and settings.tasks is None else None


def _check(samples: int, ks: Sequence[int], num_tasks: int | None) -> None:
    for name, value in (("samples", samples), ("num_tasks", num_tasks), ("k", min(ks, default=1))):
        check_number(name, value)
    beyond = [k for k in ks if k > samples]
    if beyond:
        raise ConfigurationError(f"pass@{beyond[0]} needs {beyond[0]} samples of each task, and there are {samples}.")


def _tasks(
    settings: PlaySettings, num_tasks: int | None, most: int | None, source: AgentEpisodes
) -> list[dict[str, Any]]:
    """Return the tasks: as many as are wanted; else at most so many of those that are named, or so many seeds."""
    if settings.tasks is None:
        count = num_tasks or most or DEFAULT_NUM_TASKS
        return [settings.task({"seed": seed}) for seed in evaluation_seeds(settings.seed, count)]
    named = named_tasks(settings.tasks, source.client, num_tasks)
    return [settings.task(task) for task in (named if num_tasks else named[:most])]


def _play(
    collection: Collection,
    settings: PlaySettings,
    source: AgentEpisodes,
    traces: RunTraces,
    tasks: Sequence[Mapping[str, Any]],
    samples: int,
    console: Console,
) -> None:
    numbered = [(number * samples + sample, task) for number, task in enumerate(tasks) for sample in range(samples)]
    collection.check_tasks(dict(numbered))
    done = collection.indexes()
    left = [(index, task) for index, task in numbered if index not in done]
    with PlayProgress(console, len(numbered), len(numbered) - len(left)) as progress:
        for played in source.play(traces.named(left)):
            traces.add(played)
            if played.episode.error is None:
                collection.add(played, settings.name)
            else:
                leave_out_failed(collection, played)
            progress.advance(played)


def _evaluation(
    collection: Collection,
    settings: PlaySettings,
    tasks: Sequence[dict[str, Any]],
    samples: int,
    ks: Sequence[int],
    success_reward: float,
) -> Evaluation:
    lines = [line for line in collection.read() if line["index"] < len(tasks) * samples]
    failures = [line for line in collection.read_left_out() if line["index"] < len(tasks) * samples]
    if not lines:
        raise EnvironmentFailedError(f"No episode came to an end. {failures[0]['reason'].capitalize()}")
    results = _task_results(tasks, lines, failures, samples, success_reward)
    counted = [result for result in results if result.rewards]
    return Evaluation(
        environment=settings.name,
        player=settings.who,
        samples=samples,
        success_reward=success_reward,
        mean_reward=mean_estimate(
            [result.mean_reward for result in counted], reward_range(line["reward"] for line in lines)
        ),
        pass_at=_passes(results, ks),
        mean_length=fmean(line["length"] for line in lines),
        illegal_actions=fmean(line["illegal_actions"] for line in lines),
        tasks=results,
        first_failure=failures[0]["reason"] if failures else None,
        temperature=None if settings.model is None else settings.temperature,
        reward_components=_components(lines, samples),
    )


def _task_results(
    tasks: Sequence[dict[str, Any]],
    lines: Sequence[Mapping[str, Any]],
    failures: Sequence[Mapping[str, Any]],
    samples: int,
    success_reward: float,
) -> list[TaskResult]:
    rewards: list[list[float]] = [[] for _ in tasks]
    for line in sorted(lines, key=lambda line: int(line["index"])):
        rewards[line["index"] // samples].append(line["reward"])
    failed = [line["index"] // samples for line in failures]
    return [
        TaskResult(task, given, sum(reaches(reward, success_reward) for reward in given), failed.count(number))
        for number, (task, given) in enumerate(zip(tasks, rewards, strict=True))
    ]


def _components(lines: Sequence[Mapping[str, Any]], samples: int) -> dict[str, Estimate]:
    """Estimate the mean of each component, from one value for each task: the mean over its attempts."""
    by_task: dict[str, dict[int, list[float]]] = {}
    for line in sorted(lines, key=lambda line: int(line["index"])):
        for name, total in line.get("reward_components", {}).items():
            by_task.setdefault(name, {}).setdefault(line["index"] // samples, []).append(total)
    return {name: _component_estimate(list(tasks.values())) for name, tasks in by_task.items()}


def _component_estimate(tasks: Sequence[Sequence[float]]) -> Estimate:
    return mean_estimate([fmean(totals) for totals in tasks], reward_range(chain.from_iterable(tasks)))


def _passes(results: Sequence[TaskResult], ks: Sequence[int]) -> dict[int, Estimate]:
    passes = {}
    for k in ks:
        enough = [result for result in results if len(result.rewards) >= k]
        if enough:
            draws = sum(len(result.rewards) // k for result in enough)
            passes[k] = share_estimate([result.pass_at(k) for result in enough], draws)
    return passes
