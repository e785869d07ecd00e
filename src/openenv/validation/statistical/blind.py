"""Players that look at nothing: the most frequent actions of the scripted player, and the luckiest random ones."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from openenv.train.evaluation.intervals import mean_estimate
from openenv.validation.findings import Check, Finding, LeftOutError, Measurement, fail, shown, warn
from openenv.validation.semantic.episodes import Action, Clock, GradedAnswer, GradedEpisode
from openenv.validation.statistical.figures import in_json
from openenv.validation.statistical.sample import ORACLE, RANDOM, PlayerSample, SampledTask
from openenv.validation.trials import action_fields

_MIN_SHOWN, _MIN_PLAYED = 2, 3
_MAX_CONSTANTS, _MAX_LUCKY = 8, 3
_MAX_ACTIONS = 200
_SMALL = 1e-9
_BALANCE = "Vary the right action between tasks, so that no answer is right in most of them."


def find_in_blind(sample: PlayerSample) -> Iterator[Finding | Measurement]:
    """Find actions that earn what the scripted player does, over many tasks, without looking at them."""
    tasks = sample.tasks
    if not _is_shown(sample, tasks):
        raise LeftOutError("all tasks show the same, so that nothing could be looked at")
    clock = Clock(sample.graded.limits.play_s)
    chosen = _best_of(sample, _candidates(sample, tasks[::2]), tasks[::2][:_MIN_PLAYED], clock)
    played = _played(sample, chosen, tasks[1::2], clock)
    if len(played) < _MIN_PLAYED:
        raise LeftOutError(f"no time was left to play {_MIN_PLAYED} tasks without looking")
    blind, gap = mean_estimate([episode.total for _, episode in played]), sample.gap
    floor = sample.estimate(RANDOM).value
    margin = sample.graded.declared.margin
    above = mean_estimate(
        [
            episode.total - task.mean(RANDOM) - (1 - margin) * (task.mean(ORACLE) - task.mean(RANDOM))
            for task, episode in played
        ]
    )
    share = (blind.value - floor) / gap if gap > _SMALL else 0.0
    yield Measurement(
        {"tasks": len(played), "blind": in_json(blind), "share": round(share, 4), "first_action": chosen[0]}
    )
    if gap > _SMALL and above.low is not None and above.low > -_SMALL:
        yield fail(
            f"{shown(chosen[0])}{' and so on' if len(chosen) > 1 else ''}, without looking, earns {blind} on "
            f"{len(played)} tasks: {share:.0%} of the way from random actions to the scripted player",
            _BALANCE,
        )


def _is_shown(sample: PlayerSample, tasks: Sequence[SampledTask]) -> bool:
    """Return whether observations of tasks differ: the first ones, or those after the same first action."""
    episodes = [task.episodes[ORACLE][0] for task in tasks]
    shown_after: dict[str, set[str]] = {"": {_text(episode.first) for episode in episodes}}
    for episode in episodes:
        if episode.actions:
            after = shown_after.setdefault(json.dumps(episode.actions[0]), set())
            after.add(_text(episode.answers[0]))
    return any(len(texts) >= _MIN_SHOWN for texts in shown_after.values())


def _text(answer: GradedAnswer) -> str:
    return json.dumps(answer.observation, sort_keys=True, default=str)


def _candidates(sample: PlayerSample, tasks: Sequence[SampledTask]) -> list[list[Action]]:
    """Return the most frequent action of the scripted player at each step, and single actions that are repeated."""
    episodes = [task.episodes[ORACLE][0] for task in tasks]
    frequent = []
    for step in range(min(_MAX_ACTIONS, max(len(episode.actions) for episode in episodes))):
        texts = Counter(json.dumps(each.actions[step]) for each in episodes if len(each.actions) > step)
        frequent.append(json.loads(texts.most_common(1)[0][0]))
    tools = sample.graded.tools
    constants = [
        [action_fields(tools.action(name, values))]
        for name, choices in sample.graded.choices.items()
        for values in choices
    ]
    return [each for each in (frequent, *constants[:_MAX_CONSTANTS]) if each]


def _best_of(
    sample: PlayerSample, candidates: Sequence[list[Action]], tasks: Sequence[SampledTask], clock: Clock
) -> list[Action]:
    """Return the actions that earn the most on some tasks, which are not those of the figure."""
    if not candidates:
        raise LeftOutError("the scripted player's episodes have no action")
    earned = [fmean([0.0, *(each.total for _, each in _played(sample, own, tasks, clock))]) for own in candidates]
    return candidates[earned.index(max(earned))]


def _played(
    sample: PlayerSample, actions: Sequence[Action], tasks: Sequence[SampledTask], clock: Clock
) -> list[tuple[SampledTask, GradedEpisode]]:
    """Play tasks without looking, as long as there is time."""
    played: list[tuple[SampledTask, GradedEpisode]] = []
    for task in tasks:
        if clock.is_over:
            break
        episode = sample.play_blind(task.task, actions)
        if episode.fault is None:
            played.append((task, episode))
    return played


def find_in_gap(sample: PlayerSample) -> Iterator[Finding | Measurement]:
    """Find random actions that, played again without looking, earn more than the scripted player."""
    top = sample.estimate(ORACLE)
    lucky = sorted(
        (episode for task in sample.tasks for episode in task.episodes[RANDOM]), key=lambda each: -each.total
    )
    clock = Clock(sample.graded.limits.play_s)
    found = [each for each in lucky[:_MAX_LUCKY] if each.actions and each.total > top.value + _SMALL]
    best = None
    for episode in found:
        played = _played(sample, episode.actions, sample.first_tasks, clock)
        if len(played) < _MIN_PLAYED:
            break
        above = mean_estimate([each.total - task.mean(ORACLE) for task, each in played])
        if best is None or above.value > best[0].value:
            best = above, len(played), episode
    figures = {"best_random": round(lucky[0].total, 4), "scripted": in_json(top), "replayed": len(found)}
    yield Measurement(figures if best is None else {**figures, "above_scripted": in_json(best[0])})
    if best is not None and best[0].low is not None and best[0].low > _SMALL:
        above, count, episode = best
        yield warn(
            f"{len(episode.actions)} actions that were drawn at random, played again without looking, earn "
            f"{above.text('+')} more than the scripted player on {count} tasks; the first is "
            f"{shown(episode.actions[0])}",
            "Reward the end that is wanted, once; what is paid on the way must not add up to more than it.",
        )


BLIND_CHECKS: tuple[Check[PlayerSample], ...] = (
    Check(
        "statistical.adversarial_floor", "actions that look at nothing stay below the scripted player", find_in_blind
    ),
    Check(
        "statistical.gameability_gap",
        "no random actions, played again, earn more than the scripted player",
        find_in_gap,
        "statistical.gameability_gap",
    ),
)
