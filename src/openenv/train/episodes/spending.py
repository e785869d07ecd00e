"""Spending of a training's episodes and of the participants in them: metrics of steps and evaluations, and sums."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import reduce
from typing import Any

from openenv.core.wire.results import NO_REPLIES, ParticipantUsage, known_sum
from openenv.records.prices import Prices, Spending, participants_in_lines

__all__ = [
    "EVALUATION",
    "FAILED_PARTICIPANT",
    "SpendingCounter",
    "cost_metrics",
    "evaluation_spending_in",
    "participants_in",
    "spending_in",
    "spending_text",
]

EVALUATION = "evaluation/"
"""Beginning of the names of metrics of an evaluation in training."""

FAILED_PARTICIPANT = "failed_participant"
"""Name in the line of an episode: the participant that failed in it."""

_COST, _PARTICIPANTS = "cost/", "participants/"
_COSTS = tuple(each.name for each in fields(Spending))
_USED = ("replies", "input_tokens", "output_tokens", "cost_usd")


class SpendingCounter:
    """Spending of the episodes that were played since the last call of `drain`.

    Args:
        model: Name of the model that plays; ``None`` of a player without one.
        prices: The prices; ``None`` where only participants are counted.
    """

    def __init__(self, model: str | None = None, prices: Prices | None = None) -> None:
        # The tokens of a model that is loaded here cost nothing of their own, unless a price is named for it.
        self._model = model if prices is not None and model in prices.models else None
        self._prices = prices
        self._lines: list[Mapping[str, Any]] = []

    def add(self, line: Mapping[str, Any]) -> None:
        """Count an episode by what it has used, under the names of a `Collection`."""
        self._lines.append(line)

    def drain(self) -> dict[str, float]:
        """Return the sums since the last call as metrics; a number that is not known of one episode is left out."""
        lines, self._lines = self._lines, []
        metrics: dict[str, float | None] = {}
        for name, usage in participants_in_lines(lines, self._prices).items():
            metrics |= {f"{_PARTICIPANTS}{name}/{field}": getattr(usage, field) for field in _USED}
        failed = Counter(line[FAILED_PARTICIPANT] for line in lines if FAILED_PARTICIPANT in line)
        metrics |= {f"{_PARTICIPANTS}{name}/failed": count for name, count in failed.items()}
        if lines and self._prices is not None:
            metrics |= cost_metrics(Spending.of_lines(lines, self._model, self._prices))
        return {name: float(value) for name, value in metrics.items() if value is not None}


def cost_metrics(spending: Spending | None, prefix: str = "") -> dict[str, float]:
    """Return spending as metrics, whose names begin with a prefix; without what is not known.

    Example:
        >>> cost_metrics(Spending(2, price_usd=0.5), "evaluation/")
        {'evaluation/cost/episodes': 2.0, 'evaluation/cost/price_usd': 0.5}
    """
    known = {} if spending is None else {field: getattr(spending, field) for field in _COSTS}
    return {f"{prefix}{_COST}{field}": float(value) for field, value in known.items() if value is not None}


def evaluation_spending_in(
    metrics: Iterable[Mapping[str, Any]], scores: Iterable[Mapping[str, float]]
) -> Spending | None:
    """Return the sum over the evaluations of a run's model: those of steps, and those before and after.

    Args:
        metrics: The lines of ``metrics.jsonl``.
        scores: What the evaluations before and after the training have cost.
    """
    begins = EVALUATION + _COST
    of_steps = [
        {name.removeprefix(EVALUATION): value for name, value in row.items() if name.startswith(begins)}
        for row in metrics
    ]
    return spending_in([*scores, *of_steps])


def spending_in(metrics: Iterable[Mapping[str, Any]]) -> Spending | None:
    """Return the sum over lines of ``metrics.jsonl``, or over evaluations; ``None`` of a run without prices."""
    steps = [row for row in metrics if f"{_COST}episodes" in row]
    if not steps:
        return None
    sums: dict[str, Any] = {field: reduce(known_sum, [row.get(_COST + field) for row in steps]) for field in _COSTS}
    return Spending(**{**sums, "episodes": round(sums["episodes"])})


def participants_in(metrics: Iterable[Mapping[str, Any]]) -> dict[str, tuple[ParticipantUsage, int]]:
    """Return what each participant has used in all steps of ``metrics.jsonl``, and the episodes in which it failed.

    Example:
        >>> participants_in([{"participants/user/replies": 2.0}, {"participants/user/failed": 1.0}])["user"]
        (ParticipantUsage(replies=2, input_tokens=None, output_tokens=None, cost_usd=None, model=None), 1)
    """
    used: dict[str, ParticipantUsage] = {}
    failed: Counter[str] = Counter()
    for row in metrics:
        own: dict[str, dict[str, float]] = {}
        for metric, value in row.items():
            if metric.startswith(_PARTICIPANTS):
                name, _, field = metric.removeprefix(_PARTICIPANTS).rpartition("/")
                own.setdefault(name, {})[field] = value
        for name, numbers in own.items():
            failed[name] += round(numbers.pop("failed", 0))
            step = _usage_of(numbers) if numbers else NO_REPLIES
            used[name] = used.get(name, NO_REPLIES) + step
    return {name: (usage, failed[name]) for name, usage in used.items()}


def spending_text(spending: Spending) -> str:
    """Return the price of a run's episodes in words, with what it is of as far as that is known."""
    price = "a price that is not known" if spending.price_usd is None else f"${spending.price_usd:,.4g}"
    parts = [f"{spending.seconds:,.0f} s of episodes"] if spending.seconds is not None else []
    parts += [f"{spending.cpu_s:,.1f} s of CPU"] if spending.cpu_s is not None else []
    if spending.input_tokens is not None and spending.output_tokens is not None:
        parts.append(f"{spending.input_tokens:,.0f} tokens read and {spending.output_tokens:,.0f} written")
    return f"{price} ({', '.join(parts)})" if parts else price


def _usage_of(numbers: Mapping[str, float]) -> ParticipantUsage:
    whole: dict[str, Any] = {name: round(numbers[name]) for name in _USED[:3] if name in numbers}
    return ParticipantUsage(**whole, cost_usd=numbers.get("cost_usd"))
