"""Evaluation of a model or a player: mean reward and pass@k over tasks, with confidence intervals."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError
from openenv.core.rubrics.bounds import reaches
from openenv.records.answers import AnswerCounts, AnswerRule, few_episodes_text, is_few
from openenv.records.collection import Collection, left_out_failures, limits_in
from openenv.records.evaluation import Estimate, Evaluation, LegalScores, TaskResult
from openenv.records.prices import Spending, participants_in_lines
from openenv.train.agents.opening import open_agent, opened_rule
from openenv.train.dataset.collecting import EpisodeKeeper, add_episodes
from openenv.train.dataset.play_traces import PlayTraces
from openenv.train.evaluation.comparison import check_common, comparison
from openenv.train.evaluation.intervals import share_estimate
from openenv.train.evaluation.pass_at_k import pass_at_k, pass_hat_k
from openenv.train.evaluation.statistics import Statistics, TaskAttempt
from openenv.train.evaluation.stored_episodes import played_versions, reuse_stored
from openenv.train.evaluation.task_groups import task_groups
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.task_choice import check_number, evaluation_tasks

__all__ = ["Evaluation", "TaskResult", "evaluate"]


def evaluate(
    settings: PlaySettings,
    output: Path,
    *,
    num_tasks: int | None = None,
    samples: int = 1,
    ks: Sequence[int] = (),
    success_reward: float = 1.0,
    sessions: int = 16,
    compared: Evaluation | None = None,
    console: Console | None = None,
) -> Evaluation:
    """Play every task some times, and estimate the mean reward and pass@k.

    What is left open for the model of a training run is as the run evaluates it: the same figures for the same seeds.

    A folder that was begun with the same settings is continued; its ``results.json`` is the evaluation. Episodes that
    were played with another version of the environment or the model are played again.

    Args:
        settings: Which environment is played, by whom and how. Without tasks, the episodes' seeds are those that no
            training has.
        output: The folder for the episodes, a `Collection`, and ``results.json``.
        num_tasks: How many tasks; by default all that are named; else as many as the model's run has; else 100.
        samples: Attempts at each task.
        ks: The values of ``k``; by default 1 and ``samples``.
        success_reward: The reward with which an attempt is a success.
        sessions: Episodes that are played at once.
        compared: An earlier evaluation, with which this one is compared task by task.
        console: Where progress is shown; by default the terminal.

    Returns:
        The evaluation.

    Raises:
        ConfigurationError: A number is below 1, a ``k`` is above ``samples``, the folder holds something else, or the
            earlier evaluation has none of the tasks.
        EnvironmentFailedError: The environment failed in every episode.
        OpenEnvError: The environment or the model are refused; the subclass names the reason.

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
        open_agent(settings, sessions, traces.env_vars) as (agent, opened),
    ):
        tasks = evaluation_tasks(
            settings.tasks,
            opened,
            num_tasks or most,
            seed=settings.seed,
            reset=settings.reset,
            may_be_fewer=num_tasks is None,
        )
        if compared is not None:
            check_common(tasks, compared)
        rule = opened_rule(settings, opened)
        collection = Collection.open(output, {**settings.decisive(), "fallback": rule.fallback, "samples": samples})
        numbered = [(number * samples + sample, task) for number, task in enumerate(tasks) for sample in range(samples)]
        reused = reuse_stored(collection, played_versions(settings, opened.package), opened.package)
        if reused is not None:
            console.print(reused, highlight=False, markup=False, soft_wrap=True)
        keeper = EpisodeKeeper(collection, settings.name, has_seconds=settings.prices is not None)
        add_episodes(keeper, agent, numbered, opened, traces, console)
    evaluation = _evaluation(collection, settings, rule, tasks, samples, ks or sorted({1, samples}), success_reward)
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
    if compared is not None:
        evaluation = replace(evaluation, comparison=comparison(compared, evaluation))
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


def _evaluation(
    collection: Collection,
    settings: PlaySettings,
    rule: AnswerRule,
    tasks: Sequence[dict[str, Any]],
    samples: int,
    ks: Sequence[int],
    success_reward: float,
) -> Evaluation:
    lines = sorted((line for line in collection.read() if line["index"] < len(tasks) * samples), key=_index)
    failures = [line for line in collection.read_left_out() if line["index"] < len(tasks) * samples]
    if not lines:
        first: str = failures[0]["reason"]
        raise EnvironmentFailedError(f"No episode came to an end. {first[:1].upper()}{first[1:]}")
    attempts: list[list[TaskAttempt]] = [[] for _ in tasks]
    for line in lines:
        attempts[_index(line) // samples].append(TaskAttempt.of_line(line))
    statistics = Statistics.of(attempts)
    answers = AnswerCounts.of_lines(lines)
    warnings = dict(answers.warnings(rule))
    played = sum(map(bool, attempts))
    if is_few(played):  # more attempts at a task are no other tasks
        whole = statistics.mean_reward
        warnings["few_episodes"] = few_episodes_text(played, "task", whole.low, whole.high, "more --tasks")
    failed = Counter(_index(line) // samples for line in failures)
    results = []
    for number, (task, mean) in enumerate(zip(tasks, statistics.tasks, strict=True)):
        rewards = [attempt.reward for attempt in attempts[number]]
        successes = sum(reaches(reward, success_reward) for reward in rewards)
        results.append(TaskResult(task, rewards, successes, failed[number], mean))
    counts = [(len(result.rewards), result.successes) for result in results]
    return Evaluation(
        environment=settings.name,
        player=settings.who,
        samples=samples,
        success_reward=success_reward,
        mean_reward=statistics.mean_reward,
        pass_at=_passes(counts, ks, pass_at_k),
        pass_hat=_passes(counts, [k for k in ks if k > 1], pass_hat_k),
        mean_length=statistics.mean_length,
        illegal_actions=statistics.illegal_actions,
        tasks=results,
        first_failure=failures[0]["reason"] if failures else None,
        failures=left_out_failures(failures),
        spending=Spending.of_lines([*lines, *failures], settings.model, settings.price_list),
        participants=participants_in_lines([*lines, *failures], settings.price_list),
        limits=limits_in(lines),
        temperature=None if settings.model is None else settings.temperature,
        reward_components=statistics.components,
        rule=rule,
        answers=answers,
        legal=_legal_scores(attempts, ks, success_reward),
        warnings=warnings,
        groups=task_groups(results),
    )


def _index(line: Mapping[str, Any]) -> int:
    return int(line["index"])


def _legal_scores(tasks: Sequence[Sequence[TaskAttempt]], ks: Sequence[int], success_reward: float) -> LegalScores:
    legal = [[attempt for attempt in each if not attempt.illegal_actions] for each in tasks]
    counts = [
        (len(all_attempts), sum(reaches(attempt.reward, success_reward) for attempt in own))
        for all_attempts, own in zip(tasks, legal, strict=True)
    ]
    episodes = sum(map(len, legal))
    legal_mean = Statistics.of(legal).mean_reward if episodes else None
    return LegalScores(episodes, legal_mean, _passes(counts, ks, pass_at_k))


def _passes(
    tasks: Sequence[tuple[int, int]], ks: Sequence[int], estimate: Callable[[int, int, int], float]
) -> dict[int, Estimate]:
    """Return pass@k or pass^k by ``k``, of the attempts at each task and the successes among them."""
    passes = {}
    for k in ks:
        enough = [(attempts, successes) for attempts, successes in tasks if attempts >= k]
        if enough:
            draws = sum(attempts // k for attempts, _ in enough)
            shares = [estimate(attempts, successes, k) for attempts, successes in enough]
            passes[k] = share_estimate(shares, draws)
    return passes
