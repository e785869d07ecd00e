"""Variance of rewards: between tasks and within them, and the share of groups that a trainer learns from."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import fmean, pvariance, variance

from openenv.records.evaluation import Estimate
from openenv.train.evaluation.intervals import mean_estimate
from openenv.validation.findings import Check, Finding, LeftOutError, Measurement, fail, warn
from openenv.validation.statistical.figures import in_json
from openenv.validation.statistical.sample import GROUP_SIZE, ORACLE, RANDOM, WEAK, PlayerSample

_NOISE, _SIGNAL = 0.5, 0.1
# Share of random actions above which the weak player plays as a model at the beginning of a training might.
_BEGINNER = 0.25
_DIGITS = 6
_MIN_ATTEMPTS = 2


def find_in_variance(sample: PlayerSample) -> Iterator[Finding | Measurement]:
    """Find that the scripted player's reward on one task varies so much that it hides how well the task was done."""
    figures = {}
    pairs = [[*task.rewards(ORACLE), task.again.total] for task in sample.first_tasks if task.again is not None]
    for player, groups in ((RANDOM, _groups(sample, RANDOM)), (WEAK, _groups(sample, WEAK)), (ORACLE, pairs)):
        if groups:
            figures[player] = {
                "between_tasks": round(pvariance([fmean(group) for group in groups]), _DIGITS),
                "within_tasks": round(fmean(map(variance, groups)), _DIGITS),
            }
    if ORACLE not in figures:
        raise LeftOutError("no time was left for a second attempt of the scripted player at a task")
    noise = sqrt(figures[ORACLE]["within_tasks"])
    yield Measurement({"variances": figures, "noise": round(noise, _DIGITS), "gap": round(sample.gap, 4)})
    if sample.gap > 0 and noise > _NOISE * sample.gap:
        yield fail(
            f"the scripted player's reward on one task has a standard deviation of {noise:.3g}, and it earns "
            f"{sample.gap:.3g} more than random actions",
            "Draw what is random in the grading from the task, or grade several times and take the mean.",
        )


def find_in_signal(sample: PlayerSample) -> Iterator[Finding | Measurement]:
    """Find that nearly no group of episodes has different rewards, so that a trainer learns nothing from them."""
    found = {player: signal_share(sample, player) for player in (RANDOM, WEAK)}
    known = {player: share for player, share in found.items() if share is not None}
    if not known:
        raise LeftOutError("no time was left for a second attempt at a task")
    yield Measurement({"group_size": GROUP_SIZE, **{player: in_json(share) for player, share in known.items()}})
    beginners = [share for player, share in known.items() if player == RANDOM or sample.weak_share > _BEGINNER]
    if all(share.high is not None and share.high < _SIGNAL for share in beginners):
        shares = f"{known[RANDOM].value:.0%} for random actions" if RANDOM in known else "none"
        if WEAK in known:
            shares += f", {known[WEAK].value:.0%} for a player with {sample.weak_share:.0%} of them"
        yield warn(
            f"few groups of {GROUP_SIZE} episodes have different rewards: {shares}",
            "Reward parts of the work, or bring easier tasks to begin with: groups with equal rewards teach nothing.",
        )


def signal_share(sample: PlayerSample, player: str) -> Estimate | None:
    """Estimate the share of groups of the trainer's size whose rewards differ; ``None`` without several attempts."""
    groups = _groups(sample, player)
    return mean_estimate([signal_of(group) for group in groups], (0.0, 1.0)) if groups else None


def _groups(sample: PlayerSample, player: str) -> list[list[float]]:
    """Return the rewards of a player on each task that it has attempted several times."""
    return [own for task in sample.first_tasks if len(own := task.rewards(player)) >= _MIN_ATTEMPTS]


def signal_of(rewards: Sequence[float], size: int = GROUP_SIZE) -> float:
    """Return the chance that the rewards of a group differ, drawn from those of a task.

    With two rewards, and p the share of one, it is 1 - p**size - (1 - p)**size.

    Args:
        rewards: Rewards of attempts at the task.
        size: Episodes of a group.

    Example:
        >>> signal_of([1.0, 0.0], size=2), signal_of([1.0, 1.0], size=2)
        (0.5, 0.0)
    """
    counts = Counter(round(reward, _DIGITS) for reward in rewards)
    return 1.0 - sum((count / len(rewards)) ** size for count in counts.values())


VARIANCE_CHECKS: tuple[Check[PlayerSample], ...] = (
    Check("statistical.variance_bound", "a task's reward varies less than players differ", find_in_variance),
    Check(
        "statistical.training_signal",
        f"groups of {GROUP_SIZE} episodes have different rewards",
        find_in_signal,
        "statistical.training_signal",
    ),
)
