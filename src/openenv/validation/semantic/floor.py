"""Floor: an episode without work, with one constant action, or at random stays below the oracle by a margin."""

from collections.abc import Iterator, Sequence

from openenv.validation.findings import Check, Finding, fail, shown
from openenv.validation.semantic.episodes import Action, Clock, GradedEpisode
from openenv.validation.semantic.graded import MAX_RANDOM_STEPS, GradedEnvironment
from openenv.validation.semantic.texts import task_name
from openenv.validation.trials import action_fields

_SHARE = 0.25
# Share above which an action is not the solution, but paid again and again, which ``probe_repeat`` finds.
_FARMED = 1.5
MAX_CONSTANTS, MIN_TASKS = 8, 3
_UNTOUCHED = "Let the grading fail before any work: reward what changed since the reset, not what was there."
_GUESS = "Vary the right action between tasks and seeds, so that no fixed or random choice of actions wins."


def find_in_floor(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find rewards for episodes without work, and for actions that look at nothing."""
    solved = [episode for episode in graded.solved if episode.total > 0]
    untouched = list(_untouched(graded, solved or graded.probed))
    graded.pays_nothing_done = bool(untouched)
    yield from untouched
    if not untouched and not graded.fields and solved:
        yield from _constant(graded, solved) or _random(graded, solved)


def _untouched(graded: GradedEnvironment, solved: Sequence[GradedEpisode]) -> Iterator[Finding]:
    margin = graded.declared.margin
    for episode in solved:
        paid = graded.share(episode.first.reward or 0.0, episode)
        if paid > margin:
            yield fail(
                f"{task_name(episode.task)}: the reset pays {episode.first.reward:g}, before any action", _UNTOUCHED
            )
            return
    for episode in graded.probed:
        for action in _idle_actions(graded, episode):
            played = graded.play(episode.task, [action])
            if played.fault is None and graded.share(played.total, episode) > margin:
                yield fail(
                    f"{task_name(episode.task)}: {shown(action)} right after the reset pays {played.total:g} of "
                    f"{episode.total:g}, with nothing done",
                    _UNTOUCHED,
                )
                return


def _idle_actions(graded: GradedEnvironment, episode: GradedEpisode) -> list[Action]:
    """Return the actions that do no work: the one that submits it, and calls without arguments."""
    calls = graded.calls(episode)
    is_submission = len(calls) > 1 and calls[-1][0] not in (name for name, _ in calls[:-1])
    actions = graded.closing(episode, None) if is_submission else []
    first = calls[:1]
    for name, choices in graded.choices.items():
        if choices == [{}] and len(graded.choices) + len(graded.fields) > 1 and first != [(name, {})]:
            actions.append(action_fields(graded.tools.action(name, {})))
    return actions


def _constant(graded: GradedEnvironment, solved: Sequence[GradedEpisode]) -> list[Finding]:
    """Find an action that wins every task when it is repeated."""
    if len(solved) < MIN_TASKS:
        return []
    options = [(name, values) for name, choices in graded.choices.items() for values in choices]
    clock = Clock(graded.limits.play_s * _SHARE)
    for name, values in options[:MAX_CONSTANTS]:
        action = action_fields(graded.tools.action(name, values))
        shares = list[float]()
        for episode in solved:
            if clock.is_over:
                return []
            played = graded.play(episode.task, [action] * MAX_RANDOM_STEPS)
            shares.append(graded.share(played.total, episode))
        if 1 - graded.declared.margin <= min(shares) <= _FARMED and _does_more(graded, solved, action):
            return [
                fail(
                    f"{shown(action)}, repeated, earns what the scripted player does in all {len(shares)} tasks", _GUESS
                )
            ]
    return []


def _does_more(graded: GradedEnvironment, solved: Sequence[GradedEpisode], action: Action) -> bool:
    """Return whether an environment has more than this one action."""
    return (
        any(each != action for episode in solved for each in episode.actions)
        or sum(map(len, graded.choices.values())) > 1
    )


def _random(graded: GradedEnvironment, solved: Sequence[GradedEpisode]) -> list[Finding]:
    totals = [episode.total for episode in graded.random]
    top = sum(episode.total for episode in solved) / len(solved)
    if not totals:
        return []
    mean = sum(totals) / len(totals)
    if not (1 - graded.declared.margin) * top <= mean <= _FARMED * top:
        return []
    return [fail(f"random actions earn {mean:g} on average, the scripted player {top:g}", _GUESS)]


def find_in_canaries(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find declared bad trajectories that earn a reward."""
    for name, actions in graded.declared.canaries.items():
        for episode in graded.solved[:1]:
            played = graded.play(episode.task, list(actions))
            if graded.share(played.total, episode) > graded.declared.margin:
                yield fail(
                    f"{task_name(episode.task)}: the canary {name} earns {played.total:g} of {episode.total:g}",
                    "Correct the grading: this trajectory is declared to be a bad one.",
                )


FLOOR_CHECKS: tuple[Check[GradedEnvironment], ...] = (
    Check(
        "semantic.floor_gap",
        "nothing done, one constant action and random actions stay below the oracle",
        find_in_floor,
    ),
    Check("semantic.canary_floor", "declared bad trajectories stay at the floor", find_in_canaries),
)
