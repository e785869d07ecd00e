"""Diagnosis of a run by its metrics and scores: reasons of a flat reward, and signs of a hack, each in a sentence.

Every check is a pure function of the lines of ``metrics.jsonl`` and of the scores. Nothing is concluded from one step,
and nothing is wrong with a policy that always acts alike once it gets the best reward that was ever seen.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import fmean
from typing import Any

from openenv.records.scores import AFTER, BEFORE, RANDOM, SCRIPTED, WARMED_UP, Score, score_name
from openenv.train.episodes.illegal_texts import commonest
from openenv.train.settings.config import TrainConfig

__all__ = ["LAST_STEPS", "TrainingWarning", "diagnose"]

LAST_STEPS = 10
"""Steps that are judged together: batches of random episodes differ too much to judge one alone."""

FLAT_GROUPS = 0.5
"""From this share on, more than half of what was played taught nothing: a group without variance has no advantages."""

ILLEGAL_ANSWERS = 0.9
"""With a legal answer in ten or fewer, the rewards are those of the fallback action, not of the policy."""

CUT_EPISODES = 0.25
"""Share of episodes cut off from which rewards at their end are missing often enough to mislead."""

CUT_ANSWERS = 0.1
"""A cut answer is seldom a legal action, and one in ten is as many as a policy makes by mistake in good runs."""

LOW_ENTROPY = 0.05
"""In nats a token. The likeliest token then has about 99%: of a group of eight, seldom does one choose another."""

NEAR_BEST = 0.05
"""Share of the range of rewards. A policy that is so near to the best reward seen has little left to learn."""

STANDARD_ERRORS = 2.0
"""A difference of so many is chance in one comparison of twenty."""

ROUNDING = 1e-9
"""Sums of the same rewards in another order differ by less."""


@dataclass(frozen=True)
class TrainingWarning:
    """Something that keeps a run from learning, or that makes its reward doubtful.

    Attributes:
        name: Name of the check that found it, such as ``flat_groups``.
        text: What was measured and what to try, in one sentence.
        environment: Name of one of several environments that it is about; empty for the whole run.
    """

    name: str
    text: str
    environment: str = ""

    def __str__(self) -> str:
        return f"{self.environment}: {self.text}" if self.environment else self.text


def diagnose(
    config: TrainConfig, metrics: Sequence[Mapping[str, Any]], scores: Mapping[str, Score]
) -> list[TrainingWarning]:
    """Find what keeps a run from learning, and rewards that are too good.

    Args:
        config: The run's settings.
        metrics: The lines of ``metrics.jsonl`` so far.
        scores: The scores so far, by `score_name`.

    Returns:
        The warnings, in the order of the environments; none where fewer than ten steps were done and nothing was
        evaluated after them.
    """
    found: list[TrainingWarning] = []
    for name, part in config.parts.items():
        own = _scores_in(name, scores)
        texts: dict[str, str] = {}
        for check, text in [*_of_steps(part, _Steps(name, metrics, _rewards_in(own))), *_of_scores(part, own)]:
            texts.setdefault(check, text)
        found += [TrainingWarning(check, text, name) for check, text in texts.items()]
    return found


class _Steps:
    """The steps in which an environment was played, and the rewards of its evaluations so far."""

    def __init__(self, environment: str, metrics: Sequence[Mapping[str, Any]], evaluated: Sequence[float]) -> None:
        self._prefix = f"episode/{environment}/" if environment else "episode/"
        self.all = [row for row in metrics if f"{self._prefix}reward" in row]
        self.last = self.all[-LAST_STEPS:]
        self._evaluated = evaluated

    @property
    def are_enough(self) -> bool:
        return len(self.last) == LAST_STEPS

    def mean(self, metric: str) -> float | None:
        """Return the mean of a metric over the last steps; ``None`` where it was not logged."""
        values = [row[name] for row in self.last if (name := f"{self._prefix}{metric}") in row]
        return fmean(values) if values else None

    def illegal_texts(self) -> Counter[str]:
        texts: Counter[str] = Counter()
        for row in self.last:
            texts.update(row.get(f"{self._prefix}illegal_texts", {}))
        return texts

    def is_near_best(self) -> bool:
        """Return whether the last rewards are about the best that was ever seen, where rewards ever differed."""
        name = f"{self._prefix}reward"
        ends = (f"{self._prefix}best_reward", f"{self._prefix}worst_reward")
        seen = [row.get(end, row[name]) for row in self.all for end in ends]
        return _is_near_best(fmean(row[name] for row in self.last), [*seen, *self._evaluated])


def _of_steps(config: TrainConfig, steps: _Steps) -> Iterator[tuple[str, str]]:
    if not steps.are_enough:
        return
    yield from _illegal_answers(steps)
    if not steps.is_near_best():
        yield from _flat_groups(steps)
        yield from _low_entropy(steps)
    yield from _limits(config, steps)


def _illegal_answers(steps: _Steps) -> Iterator[tuple[str, str]]:
    illegal, length = steps.mean("illegal_actions"), steps.mean("length")
    if illegal is not None and length and illegal / length >= ILLEGAL_ANSWERS:
        yield "illegal_answers", _illegal_text(illegal / length, f"the last {LAST_STEPS} steps", steps.illegal_texts())


def _illegal_text(share: float, where: str, texts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{text!r} ({count} times)" for text, count in commonest(texts).items())
    most = f", most often {listed}" if listed else ""
    return (
        f"{share:.0%} of the answers in {where} were no legal action{most}: try examples first (--sft), a larger "
        "model, or an action with fewer and better described fields."
    )


def _flat_groups(steps: _Steps) -> Iterator[tuple[str, str]]:
    share = steps.mean("flat_groups")
    if share is not None and share >= FLAT_GROUPS:
        yield (
            "flat_groups",
            f"In {share:.0%} of the groups of the last {LAST_STEPS} steps all episodes got the same reward (the mean "
            f"is {steps.mean('reward'):+.3f}), so there was nothing to compare: try an easier task (reset, "
            "curriculum), rewards for partial success, a higher --temperature, or examples first (--sft).",
        )


def _low_entropy(steps: _Steps) -> Iterator[tuple[str, str]]:
    # Several environments share one model, whose entropy is logged once for all of them.
    entropies = [row["entropy"] for row in steps.all if "entropy" in row]
    if not entropies:
        return
    first, last = fmean(entropies[:LAST_STEPS]), fmean(entropies[-LAST_STEPS:])
    if last < LOW_ENTROPY:
        yield (
            "low_entropy",
            f"The policy nearly always acts alike (entropy {last:.3f} nats a token in the last {LAST_STEPS} steps, "
            f"{first:.3f} in the first), with a mean reward of {steps.mean('reward'):+.3f}, which is not the best that "
            "was seen: try a smaller --learning-rate, a larger entropy_coef, or fewer examples before.",
        )


def _limits(config: TrainConfig, steps: _Steps) -> Iterator[tuple[str, str]]:
    by_turns, by_context = steps.mean("cut_by_max_turns"), steps.mean("cut_by_max_context")
    if by_turns is not None and by_turns >= CUT_EPISODES:
        yield (
            "max_turns",
            f"{by_turns:.0%} of the episodes of the last {LAST_STEPS} steps were cut off after max_turns="
            f"{config.max_turns} actions, before the environment ended them: try a larger --max-turns.",
        )
    if by_context is not None and by_context >= CUT_EPISODES:
        yield (
            "max_context",
            f"{by_context:.0%} of the episodes of the last {LAST_STEPS} steps were cut off at max_context="
            f"{config.max_context} tokens: try a larger --max-context, or shorter observations.",
        )
    cut, length = steps.mean("cut_answers"), steps.mean("length")
    if cut is not None and length and cut / length >= CUT_ANSWERS:
        yield (
            "max_action_tokens",
            f"{cut / length:.0%} of the answers in the last {LAST_STEPS} steps were cut off at max_action_tokens="
            f"{config.max_action_tokens} tokens: try a larger --max-action-tokens.",
        )


def _scores_in(environment: str, scores: Mapping[str, Score]) -> dict[str, Score]:
    """Return the scores in one environment, by the player alone."""
    players = (RANDOM, SCRIPTED, BEFORE, WARMED_UP, AFTER)
    return {player: scores[name] for player in players if (name := score_name(player, environment)) in scores}


def _of_scores(config: TrainConfig, scores: Mapping[str, Score]) -> Iterator[tuple[str, str]]:
    after = scores.get(AFTER)
    if after is None:
        return
    if after.mean_length and after.illegal_actions / after.mean_length >= ILLEGAL_ANSWERS:
        share = after.illegal_actions / after.mean_length
        yield "illegal_answers", _illegal_text(share, f"the evaluation {AFTER}", after.illegal_texts)
    if BEFORE in scores and not _is_near_best(after.mean_reward, _rewards_in(scores)):
        yield from _no_better(config, after, scores[BEFORE])
    if SCRIPTED in scores:
        yield from _above_scripted(after, scores[SCRIPTED])


def _rewards_in(scores: Mapping[str, Score]) -> list[float]:
    """Return the rewards of any player in any episode."""
    return [reward for score in scores.values() for reward in (score.rewards or [score.mean_reward])]


def _is_near_best(reward: float, seen: Sequence[float]) -> bool:
    """Return whether a reward is about the best of those that were seen, where these differ."""
    best, worst = max(seen), min(seen)
    return best > worst and reward >= best - NEAR_BEST * (best - worst)


def _no_better(config: TrainConfig, after: Score, before: Score) -> Iterator[tuple[str, str]]:
    if after.mean_reward - before.mean_reward <= _chance(after, before):
        more = "more --steps, another --learning-rate, a larger --group-size, " if config.grpo else "more examples, "
        yield (
            "no_better",
            f"The mean reward after training, {after.mean_reward:+.3f} ± {after.standard_error:.3f}, is no better than "
            f"before, {before.mean_reward:+.3f} ± {before.standard_error:.3f}: try {more}or an easier task first "
            "(reset, curriculum).",
        )


def _above_scripted(after: Score, scripted: Score) -> Iterator[tuple[str, str]]:
    if after.mean_reward - scripted.mean_reward > _chance(after, scripted):
        yield (
            "above_scripted",
            f"The model's mean reward {after.mean_reward:+.3f} is above the scripted player's "
            f"{scripted.mean_reward:+.3f}: read its best episode in the report, for it may have found a reward that "
            "the environment should not give.",
        )


def _chance(one: Score, other: Score) -> float:
    """Return the largest difference of two means that is chance, or rounding."""
    return max(STANDARD_ERRORS * hypot(one.standard_error, other.standard_error), ROUNDING)
