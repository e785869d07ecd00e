"""Parts of a run's page: warnings, a histogram of rewards, episodes turn by turn, starts of the run."""

import html
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from openenv.records.failures import failures_in, kind_text
from openenv.records.run_start import RunStart
from openenv.records.run_times import RunTimes
from openenv.records.scores import Score, figure_name, side_by_side
from openenv.train.episodes.spending import participants_in
from openenv.train.run.diagnosis import TrainingWarning

__all__ = [
    "cell",
    "comparison_table",
    "component_table",
    "example_details",
    "failure_table",
    "participant_table",
    "reward_histogram",
    "row",
    "start_rows",
    "time_section",
    "turns_table",
    "warning_section",
]

MAX_BARS = 12
"""Of each player; more of them are too thin on a telephone."""


def cell(value: Any) -> str:
    """Return a value as the content of a table's cell."""
    return html.escape("-" if value is None else str(value)).replace("\n", "<br>")


def row(*cells: Any) -> str:
    """Return a table's row."""
    return "<tr>" + "".join(f"<td>{cell(value)}" for value in cells) + "</tr>"


def comparison_table(before: Score, after: Score) -> str:
    """Return the same tasks before and after a training, with answers and rewards beside each other."""
    rows = "".join(
        row(shown, first, f"{reward:+.2f}", second, f"{later:+.2f}")
        for shown, first, reward, second, later in side_by_side(before, after)
    )
    head = "<tr><th>shown first<th>answers before<th>reward<th>answers after<th>reward</tr>"
    return f'<div class="card"><table>{head}{rows}</table></div>' if rows else ""


def component_table(scores: Mapping[str, Score]) -> str:
    """Return the mean of each component of the reward, a column for each; nothing where there are none."""
    names = list(dict.fromkeys(name for score in scores.values() for name in score.reward_components))
    if not names:
        return ""
    head = "".join(f"<th>{cell(name)}" for name in names)
    rows = "".join(
        row(figure_name(player), *(_mean_cell(score.reward_components.get(name)) for name in names))
        for player, score in scores.items()
    )
    return (
        "<h2>Components of the reward</h2><p>Mean over the episodes of a component's scores, summed over the steps.</p>"
        f'<div class="card"><table><tr><th>player{head}</tr>{rows}</table></div>'
    )


def _mean_cell(mean: float | None) -> str | None:
    return None if mean is None else f"{mean:+.3f}"


def warning_section(warnings: Sequence[TrainingWarning]) -> str:
    """Return the warnings as a list, or one sentence where there are none."""
    if not warnings:
        return "<p>No warnings.</p>"
    items = "".join(f"<li>{cell(warning)}</li>" for warning in warnings)
    return f'<ul class="warnings">{items}</ul>'


def failure_table(metrics: Sequence[Mapping[str, Any]], scores: Mapping[str, Score]) -> str:
    """Return the numbers of failed episodes by kind, in training and in each evaluation; nothing without any."""
    own = {"in training": failures_in(metrics)}
    own |= {figure_name(player): score.failures for player, score in scores.items()}
    rows = "".join(
        row(where, count, kind, kind_text(kind)) for where, counts in own.items() for kind, count in counts.items()
    )
    if not rows:
        return ""
    head = "<tr><th>where<th>episodes<th>kind<th>failure</tr>"
    return (
        "<h2>Failed episodes</h2><p>They are in no mean, no baseline and no score: a failure is no reward of 0.</p>"
        f'<div class="card"><table>{head}{rows}</table></div>'
    )


def participant_table(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return what users, opponents and judges have used in training, and how often they failed; nothing without any."""
    rows = "".join(
        row(name, used.replies, used.input_tokens, used.output_tokens, used.cost_usd, failed)
        for name, (used, failed) in participants_in(metrics).items()
    )
    if not rows:
        return ""
    head = "<tr><th>name<th>replies<th>tokens read<th>tokens written<th>price, $<th>failed episodes</tr>"
    return (
        "<h2>Users, opponents and judges in training</h2><p>They are no part of the price of the episodes. What is not "
        f'known of one reply has no sum.</p><div class="card"><table>{head}{rows}</table></div>'
    )


def reward_histogram(rewards: Mapping[str, Sequence[float]]) -> str:
    """Return a table with a bar for each player and each range of rewards; nothing where there are no rewards."""
    players = {player: [round(value, 3) for value in values] for player, values in rewards.items() if values}
    if not players:
        return ""
    ranges = _ranges([value for own in players.values() for value in own])
    counts = [_counts(values, ranges) for values in players.values()]
    keys = "".join(f'<span><i class="bar bar{number}"></i>{cell(name)}</span>' for number, name in enumerate(players))
    rows = "".join(
        f"<tr><th>{_range_name(low, high)}<td>{''.join(map(_bar, range(len(shares)), shares))}</tr>"
        for (low, high), *shares in zip(ranges, *counts, strict=True)
    )
    return f'<div class="keys">{keys}</div><table class="histogram">{rows}</table>'


def _ranges(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the ranges of the bars, with their upper ends: single values where there are few of them."""
    distinct = sorted(set(values))
    if len(distinct) <= MAX_BARS:
        return [(value, value) for value in distinct]
    low, width = distinct[0], (distinct[-1] - distinct[0]) / MAX_BARS
    return [(low + width * number, low + width * (number + 1)) for number in range(MAX_BARS)]


def _counts(values: Sequence[float], ranges: Sequence[tuple[float, float]]) -> list[float]:
    """Return the share of the values in each range."""
    ends = [high for _, high in ranges]
    counts = Counter(min(bisect_left(ends, value), len(ends) - 1) for value in values)
    return [counts[number] / len(values) for number in range(len(ranges))]


def _range_name(low: float, high: float) -> str:
    return f"{low:+.3g}" if low == high else f"{low:+.3g} to {high:+.3g}"


def _bar(player: int, share: float) -> str:
    return (
        f'<div class="share"><i class="bar bar{player}" style="width: {share * 80:.1f}%"></i><span>{share:.0%}</span>'
        "</div>"
    )


def turns_table(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return an episode turn by turn; an illegal answer is struck out, with the reason beside it."""
    rows = "".join(_turn_row(number, turn) for number, turn in enumerate(turns, start=1))
    return f"<table><tr><th>step<th>shown<th>answer<th>reward</tr>{rows}</table>"


def _turn_row(number: int, turn: Mapping[str, Any]) -> str:
    answer = cell(turn["action"] or "(nothing)")
    if turn["problem"]:
        answer = f'<span class="illegal" title="{html.escape(turn["problem"])}">{answer}</span>'
    reward = f"{turn['reward']:+.2f}"
    if components := turn.get("components"):
        named = ", ".join(f"{name} {score:.3g}" for name, score in components.items())
        reward = f'<span title="{html.escape(named)}">{reward}</span>'
    return f"<tr><td>{number}<td>{cell(turn['observation'])}<td>{answer}<td>{reward}</tr>"


def example_details(examples: Mapping[str, Mapping[str, Any]], environment: str) -> str:
    """Return the best, the median and the worst episode of a `Score`, each to be opened; the best is open."""
    where = f"{environment}: " if environment else ""
    return "".join(
        f"<details{' open' if name == 'best' else ''}><summary>{cell(f'{where}{name} episode, seed ')}"
        f"{cell(example['seed'])}: reward {example['reward']:+.3g} in {len(example['turns'])} steps</summary>"
        f"{turns_table(example['turns'])}</details>"
        for name, example in examples.items()
    )


def time_section(times: RunTimes) -> str:
    """Return what the time of a run went to, in all and in a step; nothing of a run of an earlier version."""
    if not times.seconds:
        return ""
    rows = "".join(
        f"<tr><td>{activity}<td>{times.seconds[activity]:,.1f} s<td>{_step_cell(times, activity)}"
        f"<td>{_bar(1, share)}</tr>"
        for activity, share in times.shares.items()
    )
    step = sum(times.step_seconds.values())
    total = row("in all", f"{times.total:,.1f} s", f"{step:,.2f} s" if step else "", "")
    speeds = f"<p>{cell(times.speeds)}.</p>" if times.speeds else ""
    return (
        "<h2>Where the time went</h2><p>Waiting is the rest: for servers to start, models to load, files to be "
        'written.</p><div class="card"><table class="times"><tr><th>activity<th>in all<th>in a step, mean<th>share</tr>'
        f"{rows}{total}</table></div>{speeds}"
    )


def _step_cell(times: RunTimes, activity: str) -> str:
    return f"{times.step_seconds[activity]:,.2f} s" if activity in times.step_seconds else ""


def start_rows(starts: Sequence[RunStart]) -> str:
    """Return the rows of a run's starts: when it was started and resumed, by which commands, with which versions."""
    rows = []
    for number, start in enumerate(starts):
        versions = ", ".join(f"{name} {version}" for name, version in start.versions.items())
        rows += [row("started" if number == 0 else "resumed", start.time.replace("T", " "))]
        rows += [f"<tr><td>command<td><code>{cell(start.command)}</code></tr>", row("versions", versions)]
    return "".join(rows)
