"""Diagnosis of a run by its metrics and scores: reasons of a flat reward, and signs of a hack, each in a sentence.

Every check is a pure function of the lines of ``metrics.jsonl`` and ``rollouts.jsonl``, and of the scores. Nothing is
concluded from one step, and nothing is wrong with a policy that always acts alike, or with a group of equal rewards,
at the best reward that was ever seen.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import fmean
from typing import Any

from openenv.records.answers import CUT_ANSWERS, few_episodes_text, illegal_text, is_few, no_calls_text
from openenv.records.failures import failures_in, failures_text
from openenv.records.run_folder import RunFolder
from openenv.records.scores import AFTER, BEFORE, RANDOM, SCRIPTED, WARMED_UP, Score, score_name
from openenv.train.settings.config import TrainConfig

__all__ = ["LAST_STEPS", "TrainingWarning", "diagnose", "diagnose_run"]

LAST_STEPS = 10
"""Steps that are judged together: batches of random episodes differ too much to judge one alone."""

FLAT_GROUPS = 0.5
"""From this share on, more than half of what was played taught nothing: a group without variance has no advantages."""

ILLEGAL_ANSWERS = 0.9
"""With a legal answer in ten or fewer, the rewards are those of the fallback action, not of the policy."""

CUT_EPISODES = 0.25
"""Share of episodes cut off from which rewards at their end are missing often enough to mislead."""

FAILED_EPISODES = 0.1
"""Share of failed episodes from which a group has too few others to compare, often enough to matter."""

NO_CALLS = 0.25
"""Share of episodes without any call of a tool, from which the mean reward is more of what was not played."""

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


def diagnose_run(config: TrainConfig, folder: RunFolder, *, has_scores: bool = True) -> list[TrainingWarning]:
    """Find the same as `diagnose` by the files of a run, and keep it in the folder, for its page."""
    scores = folder.read_scores() if has_scores else {}
    found = diagnose(config, folder.read_metrics(), scores, folder.last_rollouts(LAST_STEPS))
    folder.write_warnings([str(warning) for warning in found])
    return found


def diagnose(
    config: TrainConfig,
    metrics: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Score],
    rollouts: Sequence[Mapping[str, Any]] = (),
) -> list[TrainingWarning]:
    """Find what keeps a run from learning, and rewards that are too good.

    Args:
        config: The run's settings.
        metrics: The lines of ``metrics.jsonl`` so far.
        scores: The scores so far, by `score_name`.
        rollouts: The last lines of ``rollouts.jsonl``, which show whether groups without variance are solved.

    Returns:
        The warnings, in the order of the environments; none where fewer than ten steps were done and nothing was
        evaluated after them.
    """
    found: list[TrainingWarning] = []
    for name, part in config.parts.items():
        steps = _Steps(name, metrics)
        texts: dict[str, str] = {}
        own_scores = _scores_in(name, scores)
        groups = _Groups(part, [line for line in rollouts if (line.get("environment") or "") == name])
        for check, text in [*_of_steps(part, steps, groups, own_scores), *_of_scores(part, own_scores)]:
            texts.setdefault(check, text)
        found += [TrainingWarning(check, text, name) for check, text in texts.items()]
    return found


class _Steps:
    """The steps in which an environment was played."""

    def __init__(self, environment: str, metrics: Sequence[Mapping[str, Any]]) -> None:
        self.environment = environment
        self._prefix = f"episode/{environment}/" if environment else "episode/"
        self.all = [row for row in metrics if f"{self._prefix}reward" in row]
        self.last = self.all[-LAST_STEPS:]

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

    def share(self, metric: str) -> float:
        """Return the mean of a metric that is logged only in steps where it is above 0."""
        return fmean(row.get(f"{self._prefix}{metric}", 0.0) for row in self.last)

    def success(self, scores: Mapping[str, Score]) -> float | None:
        """Return the reward that is near the best of any episode so far; ``None`` where rewards never differed."""
        name = f"{self._prefix}reward"
        rewards = [reward for score in scores.values() for reward in score.rewards]
        best: float = max([*(row.get(f"{self._prefix}best_reward", row[name]) for row in self.all), *rewards])
        worst: float = min([*(row.get(f"{self._prefix}worst_reward", row[name]) for row in self.all), *rewards])
        return best - NEAR_BEST * (best - worst) if best > worst else None


class _Groups:
    """Groups of episodes in the last lines of ``rollouts.jsonl``, each with the same reward throughout."""

    def __init__(self, config: TrainConfig, lines: Sequence[Mapping[str, Any]]) -> None:
        # Rewards of the environment, and what is learned from, of each group.
        groups: dict[tuple[int, Any], list[tuple[float, float]]] = defaultdict(list)
        for number, line in enumerate(lines):
            for note in line["episodes"]:
                if "error" not in note:
                    groups[number, note["group"]].append((note["reward"], _learned(config, note)))
        flat = [own for own in groups.values() if len({round(learned, 9) for _, learned in own}) == 1]
        self.flat_rewards = [fmean(reward for reward, _ in own) for own in flat]

    def failed_share(self, success: float | None) -> float:
        """Return the share of the groups without variance that did not reach a reward; 1 where none is known."""
        if success is None or not self.flat_rewards:
            return 1.0
        return sum(reward < success for reward in self.flat_rewards) / len(self.flat_rewards)


def _learned(config: TrainConfig, note: Mapping[str, Any]) -> float:
    """Return what is learned from an episode: its reward or the components of it, less the penalty."""
    # What a rule takes for illegal answers, the reward lacks already.
    penalty = config.illegal_penalty - config.answer_rule.penalty
    reward: float = note["reward"]
    if config.reward_components:
        penalty, components = config.illegal_penalty, note.get("reward_components", {})
        reward = sum(weight * components.get(name, 0.0) for name, weight in config.reward_components.items())
    return reward - penalty * float(note.get("illegal_actions", 0))


def _of_steps(
    config: TrainConfig, steps: _Steps, groups: _Groups, scores: Mapping[str, Score]
) -> Iterator[tuple[str, str]]:
    if not steps.are_enough:
        return
    yield from _failures(steps)
    yield from _illegal_answers(steps)
    success = steps.success(scores)
    reward = steps.mean("reward")
    if success is None or reward is None or reward < success:
        yield from _flat_groups(config, steps, groups.failed_share(success))
        yield from _low_entropy(steps)
    yield from _limits(config, steps)
    no_calls = steps.share("no_calls")
    if no_calls >= NO_CALLS:
        remedy = "try examples first (--sft), or a model that calls tools"
        yield "no_calls", no_calls_text(no_calls, f" of the last {LAST_STEPS} steps", remedy)


def _failures(steps: _Steps) -> Iterator[tuple[str, str]]:
    failed = steps.mean("failed")
    if failed is not None and failed >= FAILED_EPISODES:
        yield (
            "failed_episodes",
            f"{failed:.0%} of the episodes of the last {LAST_STEPS} steps failed and teach nothing: "
            f"{failures_text(failures_in(steps.last, steps.environment))}. Correct the commonest first.",
        )


def _illegal_answers(steps: _Steps) -> Iterator[tuple[str, str]]:
    illegal, length = steps.mean("illegal_actions"), steps.mean("length")
    if illegal is not None and length and illegal / length >= ILLEGAL_ANSWERS:
        yield "illegal_answers", _illegal_text(illegal / length, f"the last {LAST_STEPS} steps", steps.illegal_texts())


def _illegal_text(share: float, where: str, texts: Mapping[str, int]) -> str:
    remedy = "try examples first (--sft), a larger model, or an action with fewer and better described fields"
    return illegal_text(share, f" in {where}", texts, "", remedy)


def _flat_groups(config: TrainConfig, steps: _Steps, failed_share: float) -> Iterator[tuple[str, str]]:
    share = steps.mean("flat_groups")
    if share is None or share * failed_share < FLAT_GROUPS:
        return
    solved = share * (1 - failed_share)
    best = f"; in another {solved:.0%} all got the best reward, which is none to worry about" if solved >= 0.005 else ""
    again = "" if config.resample else "--resample 2, "
    again += "--sampler curriculum, " if config.tasks is not None and config.sampler is None else ""
    yield (
        "flat_groups",
        f"In {share * failed_share:.0%} of the groups of the last {LAST_STEPS} steps all episodes got the same reward "
        f"(the mean is {steps.mean('reward'):+.3f}), so there was nothing to compare{best}: try an easier task (reset, "
        f"curriculum), rewards for partial success, a higher --temperature, {again}or examples first (--sft).",
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
    if is_few(after.episodes):
        remedy = "a larger --eval-episodes"
        yield "few_episodes", few_episodes_text(after.episodes, "episode", after.low, after.high, remedy)
    if BEFORE in scores and not _is_best(after, scores):
        yield from _no_better(config, after, scores[BEFORE])
    if SCRIPTED in scores:
        yield from _above_scripted(after, scores[SCRIPTED])


def _is_best(after: Score, scores: Mapping[str, Score]) -> bool:
    """Return whether a score is about the best reward of any player in any episode."""
    rewards = [reward for score in scores.values() for reward in (score.rewards or [score.mean_reward])]
    best, worst = max(rewards), min(rewards)
    return best > worst and after.mean_reward >= best - NEAR_BEST * (best - worst)


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
