"""Figures of statistical checks, as reports have them."""

from typing import Any

from openenv.records.evaluation import Estimate

_DIGITS = 4


def in_json(estimate: Estimate) -> dict[str, float | None]:
    """Return an estimate for a report: its mean, and the ends of its interval."""
    found = {"mean": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: None if value is None else round(value, _DIGITS) for name, value in found.items()}


def figure_text(value: Any) -> str:
    """Return a figure for people; nothing for a list or an object that is no estimate.

    Example:
        >>> figure_text({"mean": 0.5, "low": 0.25, "high": 0.75}), figure_text(32), figure_text([1, 2])
        ('0.5 [0.25, 0.75]', '32', '')
    """
    if isinstance(value, dict) and value.keys() == {"mean", "low", "high"}:
        ends = "" if value["low"] is None else f" [{value['low']:.3g}, {value['high']:.3g}]"
        return f"{value['mean']:.3g}{ends}"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    return value if isinstance(value, str) else f"{value:.6g}"
