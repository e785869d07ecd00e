"""Oracle: the scripted player reaches the top on every task, and right answers in another form are accepted too."""

import re
from collections.abc import Iterator
from typing import Any

from openenv.core.exceptions import OpenEnvError
from openenv.validation.findings import Check, Finding, fail, shown, warn
from openenv.validation.semantic.episodes import Action, GradedEpisode
from openenv.validation.semantic.fields import FieldRole, OpenField
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.texts import number_of, task_name

_EXACT = re.compile(r"exact|verbatim|case.sensitive|character.for.character", re.IGNORECASE)
_SOLVE = "Correct the task's answer or its grading, or the player, until the scripted player solves it."


def find_in_oracle(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find tasks on which the scripted player does not reach the top."""
    if graded.make_player is None:
        yield warn(
            "there is no scripted player, so that nothing shows that a task can be solved",
            "Write player.py with make_player(seed), which returns a function from an observation to an action, and "
            "name it in openenv.yaml: `player: player:make_player`.",
        )
        return
    for episode in graded.oracle:
        if episode.fault is not None:
            yield fail(f"{task_name(episode.task)}: the scripted player's episode failed: {episode.fault}", _SOLVE)
    whole = [episode for episode in graded.oracle if episode.fault is None and set(episode.rewards) != {None}]
    totals = [episode.total for episode in whole]
    highest = graded.declared.highest
    top = max(totals, default=0.0) if highest is None else highest
    if whole and max(totals) <= 0.0 and not _beats_random(graded, whole):
        yield fail(
            f"the scripted player earns {max(totals):g} at best, which is no more than random actions do", _SOLVE
        )
        return
    for episode in whole:
        missing = top - episode.total
        if highest is not None and missing < -graded.declared.tolerance:
            yield fail(
                f"{task_name(episode.task)}: a reward of {episode.total:g} is above the top, {top:g}",
                "Correct the reward, or the declared range.",
            )
        elif missing > graded.declared.tolerance and (graded.has_tasks or highest is not None):
            yield fail(f"{task_name(episode.task)}: the scripted player gets {episode.total:g} of {top:g}", _SOLVE)


def _beats_random(graded: GradedEnvironment, whole: list[GradedEpisode]) -> bool:
    mean = sum(episode.total for episode in whole) / len(whole)
    totals = [episode.total for episode in graded.random]
    return bool(totals) and mean > sum(totals) / len(totals)


def find_in_variants(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find right answers that are refused for their form."""
    field = graded.answer_field
    if field is None:
        return
    seen: set[str] = set()
    for episode in graded.probed:
        exact = bool(_EXACT.search(f"{graded.prompt_of(episode)} {field.schema.get('description', '')}"))
        for what, value, is_sure in variants(graded.answer_of(episode, field), field.role, is_exact=exact):
            if what in seen or _is_accepted(graded, episode, field, value):
                continue
            seen.add(what)
            find = fail if is_sure else warn
            yield find(
                f"{task_name(episode.task)}: {field.label} = {shown(value)} is refused, "
                f"{shown(graded.answer_of(episode, field))} earns {episode.total:g}: {what}",
                "Compare what answers mean: strip white space, compare numbers as numbers, ignore case and a last full "
                "stop; or state the exact form in the field's description.",
            )


def _is_accepted(graded: GradedEnvironment, episode: GradedEpisode, field: OpenField, value: Any) -> bool:
    """Return whether the oracle's episode with another last answer earns as much."""
    actions = list(episode.actions)
    for number in range(len(actions) - 1, -1, -1):
        if graded.tools.call(actions[number])[0] == field.tool:
            try:
                actions[number] = _replaced(graded, field, value, episode)
            except OpenEnvError:
                return False
            break
    played = graded.play(episode.task, actions)
    if played.last.refusal is not None:  # it is not graded, and the agent can try again
        return True
    return played.fault is not None or graded.share(played.total, episode) > 1 - max(graded.declared.margin, 0.01)


def _replaced(graded: GradedEnvironment, field: OpenField, value: Any, episode: GradedEpisode) -> Action:
    used = [call for name, call in graded.calls(episode) if name == field.tool][-1]
    action = graded.tools.action(field.tool, {**used, field.name: value})
    return dict(action) if isinstance(action, dict) else action.model_dump(mode="json")


def variants(value: Any, role: FieldRole, *, is_exact: bool = False) -> Iterator[tuple[str, Any, bool]]:
    """Iterate over values that mean the same: their difference, the value, and whether they surely mean the same.

    Example:
        >>> [what for what, _, is_sure in variants("1", FieldRole.ANSWER) if is_sure]
        ['a line feed at the end', 'blanks around it', 'a decimal point in a whole number']
    """
    if not isinstance(value, str):
        yield from _value_variants(value)
        return
    if role is FieldRole.PATH:
        return
    yield "a line feed at the end", f"{value}\n", not is_exact
    if role is FieldRole.CODE:
        yield "a comment at its start", f"# The solution.\n{value}", True
        return
    if role is FieldRole.SHELL:
        yield "a comment at its end", f"{value}  # done", False
        return
    yield "blanks around it", f"  {value} ", not is_exact
    if role is FieldRole.SQL:
        if not value.rstrip().endswith(";"):
            yield "a semicolon at the end", f"{value};", True
        return
    if role is FieldRole.ANSWER and not is_exact:
        yield from _text_variants(value)


def _text_variants(value: str) -> Iterator[tuple[str, Any, bool]]:
    if re.fullmatch(r"-?\d+", value):
        yield "a decimal point in a whole number", f"{value}.0", True
        if len(value.lstrip("-")) > 3:
            yield "separators of thousands", f"{int(value):,}", False
    elif re.fullmatch(r"-?\d+\.\d+", value):
        yield "a zero after the last decimal", f"{value}0", True
    elif value and number_of(value) is None:
        if value.swapcase() != value and len(value) > 1 and "\n" not in value:
            yield "upper case", value.upper() if value != value.upper() else value.lower(), False
        if value[-1:].isalnum() and "\n" not in value:
            yield "a full stop at the end", f"{value}.", False
        items = [each.strip() for each in value.split(",")]
        if len(items) > 1 and all(items):
            if ", " in value:
                yield "no blanks after commas", ",".join(items), False
            else:
                yield "blanks after commas", ", ".join(items), False


def _value_variants(value: Any) -> Iterator[tuple[str, Any, bool]]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield "a decimal point in a whole number", float(value), False
    elif isinstance(value, float) and value.is_integer():
        yield "no decimal point in a whole number", int(value), True


ORACLE_CHECKS = (
    Check("semantic.oracle_max", "the scripted player reaches the top on every task of a sample", find_in_oracle),
    Check("semantic.oracle_variants", "right answers in another form are accepted", find_in_variants),
)
