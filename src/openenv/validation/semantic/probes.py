"""Exploit probes: each family is sent to the open fields of the actions, and must not earn a reward."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from openenv.core.exceptions import OpenEnvError
from openenv.validation.findings import Check, Finding, Measurement, fail, shown, warn
from openenv.validation.semantic import program_probes, text_probes
from openenv.validation.semantic.episodes import Action, Clock, GradedEpisode
from openenv.validation.semantic.fields import FieldRole, OpenField
from openenv.validation.semantic.graded import MAX_REPLAYED, GradedEnvironment
from openenv.validation.semantic.leakage import has_answer
from openenv.validation.semantic.probing import Probe, ProbeContext
from openenv.validation.semantic.texts import task_name

ISOLATED = "semantic.isolated_grading"
"""Check that verifies isolated grading."""

MAX_FIELDS, REPEATS = 4, 3
# Share of the time for all episodes that a family of exploits has.
SHARE = 0.25
FULL = 0.95
# Programs take their time, and do not depend on the task.
_PROGRAMS = (FieldRole.CODE, FieldRole.SHELL)


@dataclass(frozen=True)
class Family:
    """Family of exploits.

    Attributes:
        id: Name of its check.
        measures: Subject of the check, for people.
        probes: Makes the exploits for a field and a task.
        remedy: Remedy, where one earns a reward.
        partial: Share of the oracle's reward above which a reward is found too; 1 for none.
        is_excluded: Whether isolated grading makes it impossible.
    """

    id: str
    measures: str
    probes: Callable[[ProbeContext], Iterator[Probe]]
    remedy: str
    partial: float = 0.1
    is_excluded: bool = False


class ProbeBudget:
    """Time for the exploits of a family, and the numbers of those that were sent and that were left out.

    Args:
        seconds: The time.

    Attributes:
        sent: Number of exploits that were sent.
        left_out: Number of those for which no time was left.
    """

    def __init__(self, seconds: float) -> None:
        self.sent = 0
        self.left_out = 0
        self._seconds = seconds
        self._clock = Clock(seconds)

    def begin_again(self) -> None:
        """Allow the same time once more."""
        self._clock = Clock(self._seconds)

    def allows(self) -> bool:
        """Return whether there is time for a further exploit, and count it."""
        if self._clock.is_over:
            self.left_out += 1
            return False
        self.sent += 1
        return True

    def measurement(self) -> Measurement:
        """Return the numbers, with a sentence where something was left out."""
        text = (
            f"{self.left_out} of {self.sent + self.left_out} probes were left out: no time was left within "
            f"{self._seconds:g} s"
        )
        return Measurement({"probes": self.sent, "left_out": self.left_out}, text if self.left_out else "")


def find_in_family(family: Family, graded: GradedEnvironment) -> Iterator[Finding | Measurement]:
    """Find the fields that pay for exploits of a family."""
    if graded.pays_nothing_done:
        return
    if family.is_excluded and graded.is_isolated:
        yield Measurement({"probes": 0, "excluded_by": ISOLATED}, f"impossible by {ISOLATED}: no probe was sent")
        return
    budget = ProbeBudget(graded.limits.play_s * SHARE)
    yield from _paying_fields(family, graded, budget)
    yield budget.measurement()


def _paying_fields(family: Family, graded: GradedEnvironment, budget: ProbeBudget) -> Iterator[Finding]:
    for field in graded.fields[:MAX_FIELDS]:
        if field.key not in graded.paid:
            finding = _first_finding(family, graded, field, budget)
            if finding is not None:
                graded.paid[field.key] = family.id
                yield finding


def _first_finding(family: Family, graded: GradedEnvironment, field: OpenField, budget: ProbeBudget) -> Finding | None:
    """Return the finding of the first exploit that earns a reward, a full one rather than a part."""
    part: Finding | None = None
    episodes = graded.probed
    for episode in episodes[: 1 if field.role in _PROGRAMS else None]:
        context = context_of(graded, field, episode)
        for probe in family.probes(context):
            if context.is_right(probe.value) or not budget.allows():
                continue
            played = _sent(graded, field, probe, episode)
            # Of an episode without an end, there is no telling how much a part of it is.
            part_of_it = family.partial + 1e-9 if episode.is_over else FULL
            threshold = max(probe.least, min(part_of_it, FULL))
            share = 0.0 if played is None else graded.share(played.total, episode)
            if played is None or share <= threshold or _is_chance(graded, field, probe, episodes):
                continue
            if _has_other_cause(graded, field, probe, episode, threshold):
                continue
            text = _text(field, probe, played, episode)
            if share >= FULL:
                return fail(text, family.remedy)
            part = part or warn(text, family.remedy)
    return part


def context_of(graded: GradedEnvironment, field: OpenField, episode: GradedEpisode) -> ProbeContext:
    """Return what the exploits of a field know of a task."""
    answer = graded.answer_of(episode, field)
    others = (graded.answer_of(each, field) for each in graded.solved if each is not episode)
    unlike = tuple(each for each in others if each is not None and each != answer)
    return ProbeContext(field, graded.prompt_of(episode), answer, unlike)


def _sent(graded: GradedEnvironment, field: OpenField, probe: Probe, episode: GradedEpisode) -> GradedEpisode | None:
    """Play an episode with an exploit alone; ``None`` where it can't be sent, or ended the session."""
    try:
        action = graded.action(field, probe.value, episode, probe.others)
    except (OpenEnvError, ValueError):
        return None
    played = graded.play(episode.task, [*[action] * REPEATS, *graded.closing(episode, field)])
    return None if played.fault is not None else played


def _is_chance(graded: GradedEnvironment, field: OpenField, probe: Probe, episodes: Sequence[GradedEpisode]) -> bool:
    """Return whether an exploit that may be right by chance earns nothing on another task."""
    if not probe.is_lucky or len(episodes) < 2:
        return False
    shares = []
    for episode in episodes:
        if not context_of(graded, field, episode).is_right(probe.value):
            played = _sent(graded, field, probe, episode)
            shares.append(0.0 if played is None else graded.share(played.total, episode))
    return sum(share >= FULL for share in shares) < 2


def _has_other_cause(
    graded: GradedEnvironment, field: OpenField, probe: Probe, episode: GradedEpisode, threshold: float
) -> bool:
    """Return whether the form of an exploit, or the action that submits it, is paid without the exploit, too."""
    closing = graded.closing(episode, field)
    if closing and graded.share(graded.play(episode.task, closing).total, episode) > threshold:
        return True
    if probe.control is None:
        return False
    played = _sent(graded, field, Probe(probe.control, probe.what), episode)
    return played is not None and graded.share(played.total, episode) > threshold


def _text(field: OpenField, probe: Probe, played: GradedEpisode, episode: GradedEpisode) -> str:
    return (
        f"{task_name(episode.task)}: {probe.what} earns {played.total:g} of {episode.total:g}; "
        f"sent as {field.label}: {shown(probe.value)}"
    )


def find_in_hidden(family: Family, graded: GradedEnvironment) -> Iterator[Finding | Measurement]:
    """Find hidden things that an agent can read: they earn the reward, or the answer is in what they show."""
    budget = ProbeBudget(graded.limits.play_s * SHARE)
    if not graded.pays_nothing_done:
        yield from _paying_fields(family, graded, budget)
    budget.begin_again()
    yield from _shown_answers(family, graded, budget)
    yield budget.measurement()


def _shown_answers(family: Family, graded: GradedEnvironment, budget: ProbeBudget) -> Iterator[Finding]:
    """Find exploits that show the answer."""
    for episode in graded.probed:
        for field in graded.fields[:MAX_FIELDS]:
            if field.key in graded.paid:
                continue
            for probe in family.probes(context_of(graded, field, episode)):
                if not budget.allows():
                    continue
                try:
                    action = graded.action(field, probe.value, episode, probe.others)
                except (OpenEnvError, ValueError):
                    continue
                played = graded.play(episode.task, [action])
                if played.answers and not played.last.done and has_answer(graded, episode, played.last.observation):
                    graded.paid[field.key] = family.id
                    yield fail(
                        f"{task_name(episode.task)}: {probe.what} show the answer; sent as {field.label}: "
                        f"{shown(probe.value)}",
                        family.remedy,
                    )
                    return


def find_in_repeats(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find rewards that are paid again for an action that changes nothing more."""
    if graded.pays_nothing_done:
        return
    for episode in [each for each in graded.probed if 0 < len(each.actions) <= MAX_REPLAYED]:
        again = graded.play(episode.task, [*episode.actions, *[episode.actions[-1]] * REPEATS], past_end=True)
        if episode.is_over and again.fault is None and again.total > episode.total * 1.5:
            yield fail(
                f"{task_name(episode.task)}: {shown(episode.actions[-1])} is paid again after the end of the episode: "
                f"{again.total:g} in all, the episode has {episode.total:g}",
                "Refuse actions after the end, as REQUIRES_RESET = True does, or give them no reward.",
            )
            return
        finding = _farmed(graded, episode)
        if finding is not None:
            yield finding
            return


def _farmed(graded: GradedEnvironment, episode: GradedEpisode) -> Finding | None:
    """Return the finding of an action within the episode whose repetition earns more than the task itself."""
    paid = [number for number, reward in enumerate(episode.rewards) if (reward or 0.0) > 0]
    if not paid or (len(paid) == 1 and paid[0] == len(episode.actions) - 1 and episode.is_over):
        return None
    before, action = episode.actions[: paid[0]], episode.actions[paid[0]]
    count = 4 * len(episode.actions) + 8
    played = graded.play(episode.task, [*before, *[action] * count])
    if (
        played.fault is not None
        or graded.share(played.total, episode) <= 1.2
        or len(set(map(str, episode.actions))) < 2
    ):
        return None
    return fail(
        f"{task_name(episode.task)}: {shown(action)}, repeated, earns {played.total:g}; solving the task earns "
        f"{episode.total:g}",
        "Pay for progress once: reward the difference to the best state so far.",
    )


def find_in_early(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find rewards for the last action alone, before the work."""
    if graded.pays_nothing_done:
        return
    for episode in [each for each in graded.probed if 2 < len(each.actions) <= MAX_REPLAYED]:
        for count in (1, len(episode.actions) // 2):
            actions: list[Action] = [*episode.actions[: count - 1], episode.actions[-1]]
            has_answer_in_it = bool(graded.closing(episode, graded.answer_field)) or graded.answer_field is None
            played = graded.play(episode.task, actions)
            if has_answer_in_it and played.is_over and graded.share(played.total, episode) >= FULL:
                yield fail(
                    f"{task_name(episode.task)}: {shown(actions[-1])} after {len(actions) - 1} of "
                    f"{len(episode.actions) - 1} steps earns {played.total:g} of {episode.total:g}",
                    "Reward the work, not the end: grade what was done when the episode ends.",
                )
                return


_READS = "Grade in a fresh process, from declared artefacts, and keep answers out of the agent's reach."
FAMILIES = (
    Family(
        "semantic.probe_nothing",
        "empty answers and words for no answer earn nothing",
        text_probes.nothing,
        "Refuse an empty answer before it is compared; compare with a parsed value, and never with a default.",
    ),
    Family(
        "semantic.probe_echo",
        "the prompt as the answer earns nothing",
        text_probes.echo,
        "Compare the whole answer, not whether the reference occurs in it.",
    ),
    Family(
        "semantic.probe_list_all",
        "many answers in one, or a negation, earn nothing",
        text_probes.list_all,
        "Accept one answer: compare it as a whole, and count wrong values against right ones.",
        partial=0.5,
    ),
    Family(
        "semantic.probe_nonsense",
        "the form of an answer without its meaning earns nothing",
        text_probes.nonsense,
        "Reward the content; give form, length and style no reward of their own, or only together with the content.",
        partial=0.5,
    ),
    Family(
        "semantic.probe_near_miss",
        "wrong answers near the right one earn nothing",
        text_probes.near_miss,
        "Compare whole values after a normalisation that keeps signs, points and the order of words.",
        partial=0.5,
    ),
    Family(
        "semantic.probe_judge",
        "instructions, scores and verdicts in the answer earn nothing",
        text_probes.to_judge,
        "Pass the answer to the judge as data, and read the judge's own verdict by a schema, never from the answer.",
        partial=0.5,
    ),
    Family(
        "semantic.probe_object",
        "values of other types, expressions and patterns earn nothing",
        text_probes.as_object,
        "Never evaluate an answer, nor use it as a pattern; check its type first, and compare plain values.",
        partial=0.5,
    ),
    Family(
        "semantic.probe_forged",
        "output that looks like a verdict earns nothing",
        program_probes.forged,
        "Read the verdict from a channel that the agent's program can't write to, with a nonce; require that all tests "
        "ran.",
        partial=0.5,
    ),
    Family(
        "semantic.probe_tamper",
        "touched tests, tools, reward files and clocks earn nothing",
        program_probes.tampering,
        "Put tests and tools in after the agent's work, and grade in a fresh process from declared artefacts.",
        partial=0.5,
        is_excluded=True,
    ),
)
HIDDEN = Family(
    "semantic.probe_hidden", "what should be hidden can't be read", program_probes.hidden, _READS, partial=0.5
)

PROBE_CHECKS: tuple[Check[GradedEnvironment], ...] = (
    *(Check(family.id, family.measures, partial(find_in_family, family)) for family in FAMILIES),
    Check(HIDDEN.id, HIDDEN.measures, partial(find_in_hidden, HIDDEN)),
    Check("semantic.probe_early", "the last action alone earns nothing", find_in_early),
    Check("semantic.probe_repeat", "an action is not paid again and again", find_in_repeats),
)
