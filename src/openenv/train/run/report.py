"""Report of a run: the learning curve as a picture, and one HTML page that needs nothing else."""

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from openenv.records.lines import read_objects
from openenv.records.run_folder import RunFolder
from openenv.records.scores import (
    AFTER,
    BEFORE,
    MODEL,
    RANDOM,
    SCRIPTED,
    WARMED_UP,
    Score,
    evaluation_metric,
    figure_name,
    sampled,
    score_name,
)
from openenv.train.episodes.spending import evaluation_spending_in, spending_in, spending_text
from openenv.train.run.diagnosis import TrainingWarning, diagnose_run
from openenv.train.run.report_parts import (
    cell,
    comparison_table,
    component_table,
    example_details,
    failure_table,
    participant_table,
    reward_histogram,
    row,
    start_rows,
    time_section,
    turns_table,
    warning_section,
)
from openenv.train.settings.config import TrainConfig

__all__ = ["draw_curve", "draw_curves", "draw_losses", "write_report"]

_TEMPLATE = Path(__file__).with_name("report.html")
_LINE, _FAINT, _INK, _GRID = "#2457d6", "#9db4ee", "#20242c", "#e4e7ee"
_PLAYER_COLOURS = {RANDOM: "#b4541a", SCRIPTED: "#1f8a4c"}
_MODEL_COLOURS = {BEFORE: "#8a93a5", WARMED_UP: "#7d3fb0", AFTER: _INK}
SMOOTHED_OVER = 0.04
_COMPONENT = "episode/reward_components/"


def draw_curve(metrics: Sequence[Mapping[str, Any]], scores: Mapping[str, Score], title: str, path: Path) -> None:
    """Draw the learning curve of one environment as a PNG: players as lines, the scores of the model as dots."""
    components = _components(metrics)
    heights = (3.4, 2.0, 1) if components else (3.4, 1)
    figure = Figure(figsize=(9, 7.4 if components else 5.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    upper, *middle, lower = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    # A step in which every episode failed has no reward.
    rows = [row for row in metrics if "episode/reward" in row]
    steps, last = [row["step"] for row in rows], max((row["step"] for row in metrics), default=0)
    _draw_rewards(upper, steps, [row["episode/reward"] for row in rows], scores, last)
    _draw_evaluations(upper, metrics, "")
    _draw_series(lower, steps, [row["episode/illegal_actions"] for row in rows])
    for axes in middle:
        _draw_components(axes, metrics, components)
    upper.set_title(title, loc="left", fontsize=13, fontweight="bold", color=_INK, pad=12)
    upper.set_ylabel("mean reward of an episode")
    lower.set_ylabel("illegal actions")
    lower.set_ylim(bottom=0)
    lower.set_xlabel("optimiser step")
    for axes in (upper, *middle, lower):
        _tidy(axes)
    figure.align_ylabels()
    figure.savefig(path)


def draw_curves(
    metrics: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Score],
    environments: Sequence[str],
    title: str,
    path: Path,
) -> None:
    """Draw a learning curve for each of several environments as a PNG, from scores by `score_name`."""
    figure = Figure(figsize=(9, 0.8 + 3.2 * len(environments)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    last = max((row["step"] for row in metrics), default=0)
    panels = figure.subplots(len(environments), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, environments, strict=True):
        # Not every environment is played in every step.
        rows = [row for row in metrics if f"episode/{name}/reward" in row]
        rewards = [row[f"episode/{name}/reward"] for row in rows]
        _draw_rewards(axes, [row["step"] for row in rows], rewards, _scores_in(name, scores), last)
        _draw_evaluations(axes, metrics, name)
        axes.set_title(name, loc="left", fontsize=11, color=_INK)
        axes.set_ylabel("mean reward of an episode")
        _tidy(axes)
    panels[-1].set_xlabel("optimiser step")
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=_INK)
    figure.savefig(path)


def _scores_in(environment: str, scores: Mapping[str, Score]) -> dict[str, Score]:
    players = (RANDOM, SCRIPTED, *(name for player in MODEL for name in (player, sampled(player))))
    return {player: scores[name] for player in players if (name := score_name(player, environment)) in scores}


def draw_losses(metrics: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draw the loss of a warm-up as a PNG, from the lines of ``warm_up/metrics.jsonl``."""
    figure = Figure(figsize=(9, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _draw_series(axes, [row["step"] for row in metrics], [row["loss"] for row in metrics])
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=_INK, pad=12)
    axes.set_ylabel("loss per token of an action")
    axes.set_xlabel("step of the warm-up")
    _tidy(axes)
    figure.savefig(path)


def _draw_rewards(
    axes: Any, steps: Sequence[int], rewards: Sequence[float], scores: Mapping[str, Score], last: int
) -> None:
    _draw_series(axes, steps, rewards, "in training, sampled")
    for player, colour in _PLAYER_COLOURS.items():
        if player in scores:
            level = scores[player].mean_reward
            style = {"color": colour, "linewidth": 1.2, "linestyle": (0, (5, 4)), "zorder": 1}
            axes.axhline(level, label=f"{player} {level:.2f}", **style)
    # The model is trained from where the warm-up has left it.
    for player, step in ((BEFORE, 0), (WARMED_UP, 0), (AFTER, last)):
        for name in (player, sampled(player)):
            if name in scores:
                # The dots of greedy figures are empty.
                inside = "none" if name == player else _MODEL_COLOURS[player]
                _draw_dot(axes, step, scores[name].mean_reward, figure_name(name), _MODEL_COLOURS[player], inside)


def _draw_evaluations(axes: Any, metrics: Sequence[Mapping[str, Any]], environment: str) -> None:
    """Draw the evaluations in training, if there are any, and the legend of all rewards."""
    metric = evaluation_metric(environment)
    rows = [row for row in metrics if metric in row]
    if rows:
        style = {
            "color": _INK,
            "marker": "o",
            "markersize": 4,
            "markerfacecolor": "none",
            "linewidth": 1.0,
            "zorder": 3,
        }
        label = "in training, greedy"
        axes.plot([row["step"] for row in rows], [row[metric] for row in rows], label=label, **style)
    # Beside the picture, where no label hides a curve or another label.
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, labelcolor=_INK)


def _components(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the reward's components in the lines of ``metrics.jsonl``."""
    names = dict.fromkeys(name for row in metrics for name in row if name.startswith(_COMPONENT))
    return [name.removeprefix(_COMPONENT) for name in names]


def _draw_components(axes: Any, metrics: Sequence[Mapping[str, Any]], components: Sequence[str]) -> None:
    """Draw a line for each component of the reward, over the steps in which it was called."""
    for number, name in enumerate(components):
        rows = [row for row in metrics if f"{_COMPONENT}{name}" in row]
        values = _smoothed([row[f"{_COMPONENT}{name}"] for row in rows])
        axes.plot([row["step"] for row in rows], values, color=f"C{number % 10}", linewidth=1.6, label=name, zorder=3)
    axes.set_ylabel("components")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, labelcolor=_INK)


def _draw_dot(axes: Any, step: int, level: float, name: str, colour: str, inside: str) -> None:
    style = {"color": colour, "markerfacecolor": inside, "markersize": 7, "zorder": 4, "clip_on": False}
    axes.plot(step, level, "o", linestyle="none", label=f"{name} {level:.2f}", **style)


def _draw_series(axes: Any, steps: Sequence[int], values: Sequence[float], label: str = "") -> None:
    axes.plot(steps, values, color=_FAINT, linewidth=0.9, zorder=2)
    axes.plot(steps, _smoothed(values), color=_LINE, linewidth=2.2, zorder=3, label=label or None)


def _smoothed(values: Sequence[float]) -> list[float]:
    """Average each value with its neighbours on both sides."""
    reach = max(1, round(len(values) * SMOOTHED_OVER))
    windows = (values[max(0, middle - reach) : middle + reach + 1] for middle in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def _tidy(axes: Any) -> None:
    axes.grid(visible=True, color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_INK, labelsize=9, length=0)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def write_report(folder: RunFolder, config: TrainConfig, title: str) -> list[TrainingWarning]:
    """Draw the curve of a run and write its page, from the files in its folder; return its warnings."""
    scores = folder.read_scores()
    names = list(config.parts)
    if config.grpo and config.environments:
        draw_curves(folder.read_metrics(), scores, names, title, folder.curve)
    elif config.grpo:
        draw_curve(folder.read_metrics(), scores, title, folder.curve)
    else:
        draw_losses(read_objects(folder.warm_up / "metrics.jsonl"), title, folder.curve)
    warnings = diagnose_run(config, folder)
    fields = {
        "title": html.escape(title),
        "summary": html.escape(_summary(scores, config, folder.read_metrics())),
        "warnings": warning_section(warnings),
        "curve": base64.b64encode(folder.curve.read_bytes()).decode(),
        "scores": "".join(_score_row(player, score) for player, score in scores.items()),
        "components": component_table(scores),
        "failures": failure_table(folder.read_metrics(), scores) if config.grpo else failure_table([], scores),
        "participants": participant_table(folder.read_metrics()) if config.grpo else "",
        "histograms": "".join(_histogram(name, scores) for name in names),
        "compared": "".join(
            comparison_table(scores[before], scores[after])
            for before, after in ((score_name(BEFORE, name), score_name(AFTER, name)) for name in names)
            if {before, after} <= scores.keys()
        ),
        "examples": "".join(
            example_details(scores[key].examples, name) for name in names if (key := score_name(AFTER, name)) in scores
        ),
        "episodes": "".join(
            _episode(key, scores[key])
            for name in names
            for player in (BEFORE, WARMED_UP, AFTER)
            if (key := score_name(player, name)) in scores
        ),
        "times": time_section(folder.run_times()),
        "starts": start_rows(folder.read_starts()),
        "config": "".join(row(name, value) for name, value in config.model_dump(mode="json").items()),
    }
    folder.report.write_text(Template(_TEMPLATE.read_text("utf-8")).substitute(fields), "utf-8")
    return warnings


def _summary(scores: Mapping[str, Score], config: TrainConfig, metrics: Sequence[Mapping[str, Any]]) -> str:
    if any(score_name(AFTER, name) not in scores for name in config.parts):
        return f"Interrupted after {len(metrics)} of {config.steps} optimiser steps, with seed {config.seed}."
    reached = [_change(name, scores) for name in config.parts]
    counts = sorted({scores[score_name(AFTER, name)].episodes for name in config.parts})
    of = f"Means of {' and '.join(map(str, counts))} episodes of one seed, {config.seed}, with 95% intervals."
    rules = [f"{f'{name}: ' if name else ''}{part.answer_rule.in_settings}" for name, part in config.parts.items()]
    illegal = f"Illegal answers: {'; '.join(rules)}; each costs {config.illegal_penalty:g} in training."
    rewards = f"Mean reward {'; '.join(reached)} after"
    if not config.grpo:
        return f"{rewards} a warm-up on examples. {of} {illegal}"
    warm_up = "" if config.sft is None else "a warm-up on examples and "
    steps = f"{config.steps} optimiser steps of {config.rollouts} episodes each, with GRPO."
    return f"{rewards} {warm_up}{steps} {of} {illegal}{_resampled(config, metrics)}{_price(metrics, scores)}"


def _resampled(config: TrainConfig, metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return the cost of the groups that were played instead of others."""
    if not config.resample:
        return ""
    episodes, tokens = (
        sum(row.get(f"episode/resampled_{name}", 0.0) for row in metrics) for name in ("episodes", "tokens")
    )
    share = episodes / (config.rollouts * max(1, len(metrics)))
    return (
        f" For groups without variance {episodes:,.0f} further episodes of other tasks were played ({share:.0%} more), "
        f"with {tokens:,.0f} tokens written."
    )


def _price(metrics: Sequence[Mapping[str, Any]], scores: Mapping[str, Score]) -> str:
    of_model = [score.costs for player, score in scores.items() if not player.endswith((RANDOM, SCRIPTED))]
    played = {
        "The episodes of the training": spending_in(metrics),
        "The model's evaluations": evaluation_spending_in(metrics, of_model),
    }
    return "".join(f" {what} cost {spending_text(found)}." for what, found in played.items() if found is not None)


def _change(name: str, scores: Mapping[str, Score]) -> str:
    before, after = (scores[score_name(player, name)].figure for player in (BEFORE, AFTER))
    where = f"in {name} " if name else ""
    return f"{where}{before} before and {after}"


def _score_row(player: str, score: Score) -> str:
    values = (
        score.figure,
        f"{score.mean_length:.1f}",
        f"{score.illegal_actions:.2f}",
        score.legal,
        str(score.episodes),
    )
    return row(figure_name(player), *values)


def _histogram(name: str, scores: Mapping[str, Score]) -> str:
    players = {
        player: scores[key].rewards
        for player in (BEFORE, WARMED_UP, AFTER)
        if (key := score_name(player, name)) in scores
    }
    heading = f"<h3>{cell(name)}</h3>" if name else ""
    return f'<div class="card">{heading}{reward_histogram(players)}</div>'


def _episode(player: str, score: Score) -> str:
    total = sum(turn["reward"] for turn in score.sample)
    return f"<section><h3>{cell(figure_name(player))}: reward {total:+.2f}</h3>{turns_table(score.sample)}</section>"
