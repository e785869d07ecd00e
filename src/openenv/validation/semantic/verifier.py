"""Verifier: the same verdict each time and elsewhere, a verdict for each answer, and no failure booked as a reward."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from openenv.core.exceptions import OpenEnvError
from openenv.validation.findings import Check, Finding, fail, shown, warn
from openenv.validation.semantic.episodes import Action, GradedEpisode, play_actions
from openenv.validation.semantic.graded import MAX_REPLAYED, GradedEnvironment
from openenv.validation.semantic.planted import ELSEWHERE, FAILURES
from openenv.validation.semantic.texts import WRONG, task_name
from openenv.validation.trials import first_difference

REPETITIONS = 5
_SAME = (
    "Let the verdict follow from the episode alone: not from chance, a clock, the order of a set, or an earlier one."
)
_ALONE = "Ship what the verifier needs with the environment, and read it by a path beside the code."
_FALSE_ZERO = (
    "Raise an exception where grading itself fails, or return no reward: then the episode is counted as an error and "
    "left out, not learned from as a failure of the agent."
)


def find_in_verdicts(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find verdicts that differ when the same episode is played again."""
    for episode in _replayed(graded):
        totals = [episode.total]
        for _ in range(REPETITIONS - 1):
            again = graded.play(episode.task, episode.actions)
            if again.fault is None:
                totals.append(again.total)
        if max(totals) - min(totals) > 1e-9:
            rewards = ", ".join(f"{total:g}" for total in totals)
            yield fail(f"{task_name(episode.task)}: the same actions earn {rewards} in {len(totals)} episodes", _SAME)
            graded.is_repeatable = False
            return
    yield from _elsewhere(graded)


def _recorded(graded: GradedEnvironment) -> list[GradedEpisode]:
    """Return the oracle's episodes that are short enough to be played again."""
    episodes = graded.probed or graded.solved[:1]
    return [each for each in episodes if 0 < len(each.actions) <= MAX_REPLAYED]


def _replayed(graded: GradedEnvironment) -> list[GradedEpisode]:
    """Return the episodes that are played again: the oracle's, and one with a wrong answer."""
    episodes = _recorded(graded)
    field = graded.answer_field
    if field is not None and graded.probed and field.schema.get("type") == "string":
        first = graded.probed[0]
        try:
            wrong = graded.play(first.task, [graded.action(field, WRONG, first)])
        except (OpenEnvError, ValueError):
            return episodes
        episodes += [wrong] if wrong.fault is None else []
    return episodes


def _elsewhere(graded: GradedEnvironment) -> Iterator[Finding]:
    """Play again in a separate process."""
    if graded.elsewhere is None:
        return
    client = graded.elsewhere()
    for episode in _replayed(graded)[:2]:
        again = play_actions(client, episode.task, episode.actions)
        if again.fault is None and abs(again.total - episode.total) > 1e-9:
            yield fail(
                f"{task_name(episode.task)}: the same actions earn {episode.total:g} here and {again.total:g} in "
                "another process",
                _SAME,
            )
            return


def find_in_replay(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find recorded episodes whose observations differ when they are played again."""
    if not graded.is_repeatable:  # which has been found
        return
    for episode in _recorded(graded):
        again = graded.play(episode.task, episode.actions)
        different = again.fault or first_difference(_seen(episode), _seen(again))
        if different is not None:
            yield fail(
                f"{task_name(episode.task)}: the scripted player's episode does not replay: {different}",
                "Draw all that is random from the seed of reset, and set all state anew there.",
            )
            return


def _seen(episode: GradedEpisode) -> list[dict[str, object]]:
    answers = [episode.first, *episode.answers]
    return [{"observation": dict(answer.observation), "done": answer.done} for answer in answers]


def find_in_form(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find answers that got no verdict: episodes that end without a reward, and answers that break the environment."""
    for episode in graded.solved[:1]:
        if episode.is_over and all(reward is None for reward in episode.rewards):
            yield fail(f"{task_name(episode.task)}: the episode ends without any reward", _FALSE_ZERO)
            return
    for fault, (action, task) in list(graded.faults.items())[:3]:
        yield warn(
            f"{task_name(task)}: {shown(action)} gets an error instead of a verdict: {fault}",
            "Refuse what can't be graded with IllegalActionError, or reward it as a wrong answer.",
        )


def find_in_failures(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find failures of the verifier's machinery that are booked as a reward of the agent."""
    yield from _planted(graded, FAILURES, "is booked as a reward of", _FALSE_ZERO)


def find_in_portability(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find verdicts that need this machine's network, folder or time zone."""
    yield from _planted(graded, ELSEWHERE, "changes the reward to", _ALONE, errors_too=True)


Condition = Callable[[Sequence[str], Sequence[Action]], AbstractContextManager[Callable[[], int]]]


def _planted(
    graded: GradedEnvironment, conditions: dict[str, Condition], text: str, remedy: str, *, errors_too: bool = False
) -> Iterator[Finding]:
    """Play the oracle's episode under each condition, and find those under which its reward falls."""
    episodes = [each for each in _recorded(graded) if each.total > 0][:1]
    if graded.serve_here is None or not episodes or not graded.is_repeatable:
        return
    episode = episodes[0]
    client = graded.serve_here()
    if abs(play_actions(client, episode.task, episode.actions).total - episode.total) > 1e-9:
        return  # a difference would have another cause
    for name, condition in conditions.items():
        with condition(graded.code, episode.actions) as count:
            played = play_actions(client, episode.task, episode.actions)
        if count() == 0:
            continue
        if played.fault is not None:
            client.disconnect()
            if errors_too:
                yield fail(f"{task_name(episode.task)}: {name}: {played.fault}", remedy)
                return
        elif any(answer.refusal is not None for answer in played.answers):
            continue
        elif graded.share(played.total, episode) < 1 - graded.declared.margin and played.is_over == episode.is_over:
            missing = played.answers[-1].reward is None if played.answers else True
            if not missing or errors_too:
                yield fail(
                    f"{task_name(episode.task)}: {name} {text} {played.total:g}; the same actions earn "
                    f"{episode.total:g} otherwise",
                    remedy,
                )
                return


VERIFIER_CHECKS: tuple[Check[GradedEnvironment], ...] = (
    Check(
        "semantic.verifier_determinism",
        "the same actions earn the same in five episodes and another process",
        find_in_verdicts,
    ),
    Check("semantic.replayability", "a recorded episode replays to the same observations", find_in_replay),
    Check(
        "semantic.verifier_portability", "the verdict needs no network, no folder and no time zone", find_in_portability
    ),
    Check("semantic.false_zero", "a failure of the grading's machinery is an error, not a reward", find_in_failures),
)
FORM_CHECK: Check[GradedEnvironment] = Check("semantic.verdict_form", "each answer gets a verdict", find_in_form)
