"""Parts of a reward: none dead, constant, of the wrong sign, unused or paid for nothing."""

from collections.abc import Iterator, Sequence

from openenv.core.exceptions import OpenEnvError
from openenv.validation.findings import Check, Finding, fail, warn
from openenv.validation.semantic.episodes import GradedEpisode
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.texts import WRONG

_SMALL = 1e-9
_MIN_STEPS, _MANY_STEPS = 2, 10
# Wrong in many ways: short, empty, long, and harmful as a program.
_WRONG_ANSWERS = (WRONG, "", f"{WRONG} " * 400, "import os, subprocess\nos.system('true')\n" * 10)


def find_in_parts(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find parts of the reward that mean nothing, or the opposite, and a reward that is the same for all actions."""
    yield from _constant(graded)
    good = [episode for episode in graded.solved if any(answer.parts for answer in episode.answers)]
    if not good:
        return
    bad = _bad_episodes(graded)
    names = list(dict.fromkeys(name for episode in good for answer in episode.answers for name in answer.parts))
    for name in names:
        yield from _part(name, good, bad)


def _constant(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find a reward that is the same in each step of episodes without an end, of the player and of wrong actions."""
    good = [each for each in graded.solved if not each.is_over and len(each.actions) >= _MANY_STEPS]
    bad = _bad_episodes(graded) if good else []
    rewards = {reward for episode in (*good, *bad) for reward in episode.rewards}
    if bad and len(rewards) == 1 and rewards.isdisjoint({None, 0.0}):
        yield warn(
            f"the reward is {rewards.pop():g} in all steps of the scripted player and of wrong actions: it is paid for "
            "nothing",
            "Let the reward depend on what was done.",
        )


def _part(name: str, good: Sequence[GradedEpisode], bad: Sequence[GradedEpisode]) -> Iterator[Finding]:
    of_good, of_bad = _values(name, good), _values(name, bad)
    both = [*of_good, *of_bad]
    weights = {answer.weights.get(name) for episode in good for answer in episode.answers if answer.weights}
    if weights == {0.0}:  # a part that is shown, and does not count
        return
    if max(map(abs, both)) <= _SMALL and len(both) >= _MIN_STEPS:
        yield warn(
            f"the part {name} is 0 in all {len(both)} steps, of the scripted player and of wrong actions: it is dead",
            "Correct what it looks at, or remove it.",
        )
    elif max(both) - min(both) <= _SMALL and len(both) >= _MIN_STEPS and of_bad:
        yield warn(
            f"the part {name} is {both[0]:g} in all {len(both)} steps, of the scripted player and of wrong actions: it "
            "is paid for nothing",
            "Let the part depend on what was done.",
        )
    elif (
        of_bad
        and max(of_good) < min(of_bad) - _SMALL
        and not any(weight is not None and weight < 0 for weight in weights)
    ):
        yield fail(
            f"the part {name} is at most {max(of_good):g} for the scripted player and at least {min(of_bad):g} for "
            "wrong actions: its sign is wrong",
            "Turn its sign around, or its weight's.",
        )


def _values(name: str, episodes: Sequence[GradedEpisode]) -> list[float]:
    found = (answer.parts.get(name) for episode in episodes for answer in episode.answers)
    return [float(value) for value in found if value is not None]


def _bad_episodes(graded: GradedEnvironment) -> list[GradedEpisode]:
    """Return episodes with wrong answers, or of random players where actions are choices."""
    field = graded.answer_field
    if field is None:
        return list(graded.random)
    episodes = []
    for episode in graded.probed:
        for value in _WRONG_ANSWERS:
            try:
                played = graded.play(episode.task, [graded.action(field, value, episode)])
            except (OpenEnvError, ValueError):
                continue
            episodes += [played] if played.fault is None else []
    return episodes


PARTS_CHECKS: tuple[Check[GradedEnvironment], ...] = (
    Check(
        "semantic.reward_parts", "no part of the reward is dead, constant, unused or of the wrong sign", find_in_parts
    ),
)
