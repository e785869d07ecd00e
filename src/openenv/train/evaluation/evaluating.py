"""How well does a model or a player do? Mean reward and pass@k over tasks, with confidence intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError
from openenv.core.rubrics.bounds import reaches, reward_range
from openenv.records.collection import Collection
from openenv.records.evaluation import Estimate, Evaluation, TaskResult
from openenv.train.agents.agent_episodes import AgentEpisodes, open_agent
from openenv.train.dataset.collecting import leave_out_failed, line_of
from openenv.train.dataset.play_progress import PlayProgress
from openenv.train.dataset.play_traces import PlayTraces
from openenv.train.episodes.episode import Episode
from openenv.train.evaluation.intervals import mean_estimate, share_estimate
from openenv.train.evaluation.pass_at_k import pass_at_k
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import evaluation_seeds
from openenv.train.tasks.task_choice import check_number, named_tasks

__all__ = ["Evaluation", "TaskResult", "evaluate"]

DEFAULT_NUM_TASKS = 100


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
    has_greedy = settings.has_greedy_figure()
    settings = settings.with_defaults()
    # How to play decides what episodes there are; what counts as success does not.
    collection = Collection(output)
    collection.check_free()
    with (
        PlayTraces(collection.traces, settings) as traces,
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
    traces: PlayTraces,
    tasks: Sequence[Mapping[str, Any]],
    samples: int,
    console: Console,
) -> None:
    numbered = [(number * samples + sample, task) for number, task in enumerate(tasks) for sample in range(samples)]
    collection.check_tasks({index: Episode.of_task(task).parameters for index, task in numbered})
    done = collection.indexes()
    left = [(index, task) for index, task in numbered if index not in done]
    with PlayProgress(console, len(numbered), len(numbered) - len(left)) as progress:
        for played in source.play(traces.named(left)):
            traces.add(played)
            if played.episode.error is None:
                collection.add(line_of(played, settings.name))
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
    bounds = reward_range(line["reward"] for line in lines)
    results = _task_results(tasks, lines, failures, samples, success_reward, bounds)
    counted = [result for result in results if result.rewards]
    return Evaluation(
        environment=settings.name,
        player=settings.who,
        samples=samples,
        success_reward=success_reward,
        mean_reward=mean_estimate([result.mean for result in counted], bounds),
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
    bounds: tuple[float, float],
) -> list[TaskResult]:
    rewards: list[list[float]] = [[] for _ in tasks]
    for line in sorted(lines, key=lambda line: int(line["index"])):
        rewards[line["index"] // samples].append(line["reward"])
    failed = [line["index"] // samples for line in failures]
    return [
        TaskResult(
            task,
            given,
            successes=sum(reaches(reward, success_reward) for reward in given),
            failed=failed.count(number),
            mean_reward=mean_estimate(given, bounds) if given else None,
        )
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
            shares = [pass_at_k(len(result.rewards), result.successes, k) for result in enough]
            passes[k] = share_estimate(shares, draws)
    return passes
