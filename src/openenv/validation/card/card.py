"""Card of an environment: what was measured of it, and of what could not be, the reason."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from openenv.auto.package import EnvironmentPackage
from openenv.records.prices import Prices, Spending
from openenv.validation.report import CheckResult
from openenv.validation.run_process import ProcessOptions, run_in_process
from openenv.validation.statistical.figures import figure_text
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus, Level

CARD_S = 300.0
"""Seconds that a card may take."""

# Seconds that are left for the check under way when the time is over.
_LAST_CHECK_S = 15.0
_LIMITS = RunLimits(answer_s=20.0, play_s=8.0, check_s=150.0, tasks=24, learning_steps=0)
_EPISODES = 1000
_CENT = 0.01
_NO_TIME = "no time was left for it"
_DETERMINISM = ("runtime.seed_control", "runtime.process_isolation", "runtime.episode_determinism")


@dataclass(frozen=True)
class CardFigure:
    """Figure of a card.

    Attributes:
        name: Its name.
        text: The figure for people; ``None`` where it could not be measured.
        reason: Reason why it could not be measured, or remark about it; empty without one.
        is_good: Whether it is as it should be; ``None`` where it is neither good nor bad.
        values: The figure as JSON values.
    """

    name: str
    text: str | None
    reason: str = ""
    is_good: bool | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LearningPoints:
    """Learning curve of the tiny policy.

    Attributes:
        rewards: Mean reward of the episodes of each step.
        seconds: Seconds of training after each step.
    """

    rewards: Sequence[float]
    seconds: Sequence[float]


@dataclass(frozen=True)
class Card:
    """Card of an environment.

    Attributes:
        name: Name of the environment.
        version: Its version.
        description: One sentence about it; empty without one.
        figures: What was measured, and what could not be.
        curve: The learning curve; ``None`` where there is none.
        seconds: Seconds that the measurements took.
    """

    name: str
    version: str
    description: str
    figures: list[CardFigure]
    curve: LearningPoints | None
    seconds: float

    @property
    def levels(self) -> dict[str, float]:
        """Mean rewards of the random and the scripted player, as far as they are known."""
        found = {each.name: each.values.get("mean") for each in self.figures if each.name in ("floor", "oracle")}
        return {name: mean for name, mean in found.items() if mean is not None}

    @property
    def faults(self) -> list[CardFigure]:
        """Figures that are not as they should be."""
        return [each for each in self.figures if each.is_good is False]

    def as_json(self) -> dict[str, Any]:
        """Return the card as JSON values."""
        return asdict(self)


def make_card(package: EnvironmentPackage, prices: Prices | None = None, seconds: float = CARD_S) -> Card:
    """Measure an environment, in five minutes at most.

    Args:
        package: Its package.
        prices: Prices, for that of episodes; ``None`` for none.
        seconds: Seconds after which no further measurement begins.

    Returns:
        The card. What could not be measured is there with the reason.

    Example:
        >>> card = make_card(find_environment("catch"))  # doctest: +SKIP
        >>> card.figures[0].text  # doctest: +SKIP
        '-0.75 [-0.8357, -0.6643]'
    """
    begun = time.monotonic()
    limits = RunLimits(**{**asdict(_LIMITS), "until": begun + seconds - _LAST_CHECK_S})
    results = run_in_process(package.target, limits, Level.STATISTICAL, ProcessOptions(with_card=True))
    return card_of(package, results, prices, round(time.monotonic() - begun, 1))


def card_of(package: EnvironmentPackage, results: Sequence[CheckResult], prices: Prices | None, seconds: float) -> Card:
    """Make the card of results of checks."""
    found = {result.check_id: result for result in results}
    readers: dict[str, Callable[[Mapping[str, CheckResult]], CardFigure]] = {
        "floor": partial(_player, player="random"),
        "oracle": partial(_player, player="scripted"),
        "exploits": _exploits,
        "determinism": partial(_held, checks=_DETERMINISM, text="equal in another process"),
        "isolation": partial(_held, checks=("runtime.episode_isolation",), text="sessions do not touch each other"),
        "CPU of a step": _cpu,
        "p99 of a step": _p99,
        f"price of {_EPISODES:,} episodes": partial(_price, prices=prices),
        "groups with a signal": _signal,
        "learning": _learning,
    }
    figures = [CardFigure(**{**vars(read(found)), "name": name}) for name, read in readers.items()]
    curve = found.get("card.curve")
    points = None
    if curve is not None and "rewards" in curve.measured:
        points = LearningPoints(curve.measured["rewards"], curve.measured["seconds"])
    return Card(package.name, package.version, package.description, figures, points, seconds)


def _missing(found: Mapping[str, CheckResult], check: str) -> CardFigure | None:
    """Return the figure of a check without a result of its own, or one that was left out; ``None`` for others."""
    result = found.get(check)
    if result is not None and result.status is not CheckStatus.SKIP:
        return None
    if result is not None:
        return CardFigure("", None, result.evidence[0])
    failed = [each for each in found.values() if each.status is CheckStatus.FAIL and each.evidence]
    needed = [each for each in failed if each.check_id in ("runtime.startup", "runtime.reset", "runtime.play")]
    if needed:
        return CardFigure("", None, f"{needed[0].check_id} failed: {needed[0].evidence[0]}")
    ended = [text for each in failed for text in each.evidence if text.startswith("its process")]
    return CardFigure("", None, ended[0] if ended else _NO_TIME)


def _player(found: Mapping[str, CheckResult], player: str) -> CardFigure:
    check = "statistical.difficulty_separation"
    missing = _missing(found, check)
    measured = {} if missing is not None else found[check].measured
    if player not in measured:
        return missing or CardFigure("", None, "; ".join(found[check].evidence))
    is_good = None if player == "random" else found[check].status is CheckStatus.PASS
    remark = f"over {measured['tasks']} tasks" if is_good is not False else found[check].evidence[0]
    return CardFigure("", figure_text(measured[player]), remark, is_good, measured[player])


def _exploits(found: Mapping[str, CheckResult]) -> CardFigure:
    made = [each for name, each in found.items() if name.startswith("semantic.probe_") and "episodes" in each.measured]
    probes = [each for each in made if each.measured["episodes"]]
    if not made:
        return _missing(found, "semantic.probe_nothing") or CardFigure("", None, _NO_TIME)
    if not probes:
        return CardFigure("", None, "its actions have no field that an exploit could be written to")
    failed = [each for each in probes if each.status is not CheckStatus.PASS]
    sent = sum(each.measured["episodes"] for each in probes)
    held = len(probes) - len(failed)
    text = f"{held} of {len(probes)} families earned nothing"
    remark = "; ".join([f"{sent} episodes", *(f"{each.check_id}: {each.evidence[0]}" for each in failed)])
    return CardFigure("", text, remark, not failed, {"families": len(probes), "held": held, "episodes": sent})


def _held(found: Mapping[str, CheckResult], checks: Sequence[str], text: str) -> CardFigure:
    for check in checks:
        missing = _missing(found, check)
        if missing is not None:
            return missing
    failed = [found[check] for check in checks if found[check].status is not CheckStatus.PASS]
    return CardFigure("", "no" if failed else text, "; ".join(each.evidence[0] for each in failed), not failed)


def _episodes(found: Mapping[str, CheckResult]) -> list[dict[str, Any]]:
    return list(found["card.speed"].measured["episodes"])


def _cpu(found: Mapping[str, CheckResult]) -> CardFigure:
    missing = _missing_speed(found)
    if missing is not None:
        return missing
    known = [each for each in _episodes(found) if each["cpu_s"] is not None and each["steps"]]
    if not known:
        return CardFigure("", None, "its server measures none, as of asynchronous methods")
    cpu_ms = 1000 * sum(each["cpu_s"] for each in known) / sum(each["steps"] for each in known)
    return CardFigure("", f"{cpu_ms:.3g} ms", "of the environment's methods", values={"ms": round(cpu_ms, 4)})


def _p99(found: Mapping[str, CheckResult]) -> CardFigure:
    missing = _missing_speed(found)
    if missing is not None:
        return missing
    measured = found["card.speed"].measured["p99_ms"]
    known = {count: value for count, value in measured.items() if not isinstance(value, str)}
    others = "; ".join(f"with {count}: {value}" for count, value in measured.items() if isinstance(value, str))
    if not known:
        return CardFigure("", None, others)
    text = ", ".join(f"{value:.3g} ms" for value in known.values())
    remark = f"with {', '.join(known)} sessions at once" + (f"; {others}" if others else "")
    return CardFigure("", text, remark, values={"ms": measured})


def _missing_speed(found: Mapping[str, CheckResult]) -> CardFigure | None:
    missing = _missing(found, "card.speed")
    if missing is None and "p99_ms" not in found["card.speed"].measured:
        return CardFigure("", None, "; ".join(found["card.speed"].evidence))
    return missing


def _price(found: Mapping[str, CheckResult], prices: Prices | None) -> CardFigure:
    if prices is None:
        return CardFigure("", None, "no prices were named; name them with --prices FILE")
    missing = _missing_speed(found)
    if missing is not None:
        return missing
    lines = [each for each in _episodes(found) if each["is_whole"]]
    one = Spending.of_lines(lines, None, prices).price_of_one if lines else None
    if one is None:
        return CardFigure("", None, "the prices name no sandbox_hour and no cpu_hour, or no whole episode was timed")
    player = found["card.speed"].measured["player"]
    remark = f"of the {player} player, without a model's tokens"
    price = _EPISODES * one
    text = f"${price:,.2f}" if price >= _CENT else f"${price:.6f}"
    return CardFigure("", text, remark, values={"usd": price})


def _signal(found: Mapping[str, CheckResult]) -> CardFigure:
    check = "statistical.training_signal"
    missing = _missing(found, check)
    measured = {} if missing is not None else found[check].measured
    shares: dict[str, Any] = {player: measured[player] for player in ("random", "weak") if player in measured}
    if not shares:
        return missing or CardFigure("", None, "; ".join(found[check].evidence))
    text = ", ".join(f"{share['mean']:.0%} {player}" for player, share in shares.items())
    is_good = found[check].status is CheckStatus.PASS
    return CardFigure("", text, f"of groups of {measured['group_size']} have different rewards", is_good, shares)


def _learning(found: Mapping[str, CheckResult]) -> CardFigure:
    check = "card.curve"
    missing = _missing(found, check)
    measured = {} if missing is not None else found[check].measured
    if "rewards" not in measured:
        return missing or CardFigure("", None, "; ".join(found[check].evidence))
    text = f"{measured['first']:.3g} to {measured['last']:.3g}"
    remark = f"the tiny policy, {measured['steps']} steps in {measured['seconds'][-1]:.0f} s"
    is_good = True if measured["has_improved"] else None
    values = {name: measured[name] for name in ("first", "last", "steps", "has_improved")}
    return CardFigure("", text, remark if is_good else f"{remark}; not significant", is_good, values)
