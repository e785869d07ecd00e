"""Leakage: the oracle's answer is not in what an agent is shown before it gives it."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from openenv.core.exceptions import OpenEnvError
from openenv.validation.findings import Check, Finding, fail, shown
from openenv.validation.semantic.episodes import GradedAnswer, GradedEpisode, play_actions
from openenv.validation.semantic.fields import FieldRole
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.texts import WRONG, normalised, strings_in, task_name

MIN_LETTERS = 6
_NAMES = re.compile(
    r"answer|solution|gold|target|expected|secret|truth|label|reference|correct|oracle|reward_model", re.IGNORECASE
)
_BESIDE = re.compile(
    r"(?:answer|solution|gold|target|expected|secret|ground.?truth|correct)[^.\n]{0,20}?(?:is|was|=|:)\s*[\"'`]?$",
    re.IGNORECASE,
)
# Keywords of schemas whose values are names rather than contents.
_KEYWORDS = (".title", ".type", ".format", ".name", ".$ref")
_REMEDY = "Keep the answer in the instance alone: out of observations, metadata, state, tools, schemas and tasks."


def find_in_leakage(graded: GradedEnvironment) -> Iterator[Finding]:
    """Find the oracle's answer in what is shown before it is given."""
    for episode in graded.probed or graded.solved[:1]:
        answers = _answers(graded, episode)
        if not answers:
            continue
        for what, shown_value in _shown(graded, episode):
            path = _leak(shown_value, answers, is_prompt=what.startswith("the first observation"))
            if path is not None:
                yield fail(
                    f"{task_name(episode.task)}: the scripted player's answer, {shown(answers[0])}, is in {what}"
                    f"{f', at {path}' if path else ''}",
                    _REMEDY,
                )
                return


def _answers(graded: GradedEnvironment, episode: GradedEpisode) -> list[Any]:
    """Return the values that the oracle's answer consists of."""
    field = graded.answer_field
    value = None if field is None else graded.answer_of(episode, field)
    if value is None or field is None or field.role in (FieldRole.SHELL, FieldRole.PATH):
        return _chosen(graded, episode)
    return [value]


def _chosen(graded: GradedEnvironment, episode: GradedEpisode) -> list[Any]:
    """Return the value that the oracle chose last, where one choice is the whole episode."""
    calls = graded.calls(episode)
    if graded.fields or len(calls) != 1:
        return []
    return [value for value in calls[0][1].values() if isinstance(value, str) or not isinstance(value, bool)][:1]


def has_answer(graded: GradedEnvironment, episode: GradedEpisode, value: Any) -> bool:
    """Return whether the oracle's answer of an episode is in a value, and not in the task's prompt."""
    answers = [each for each in _answers(graded, episode) if _is_specific(each)]
    prompt = normalised(graded.prompt_of(episode))
    text = normalised(json.dumps(value, ensure_ascii=False, default=str))
    return any(normalised(each) in text and normalised(each) not in prompt for each in answers)


def _shown(graded: GradedEnvironment, episode: GradedEpisode) -> Iterator[tuple[str, Any]]:
    """Iterate over all that is shown before the answer: each with its name."""
    yield "the first observation", episode.first.observation
    yield "the metadata of the first observation", episode.first.metadata
    yield "the state after the reset", _state(graded, episode)
    tools = [tool.model_dump(mode="json") for tool in graded.tools.tools]
    yield "the description of the tools", tools
    with suppress(OpenEnvError):
        yield "the schemas", graded.client.schemas()
    if "split" in episode.task:
        with suppress(OpenEnvError):
            yield "the task of the Task API", graded.client.task(episode.task["split"], episode.task["index"])
    wrong = _after_wrong(graded, episode)
    if wrong is not None and not wrong.done:
        yield "the observation after a wrong answer, while the episode continues", wrong.observation
        yield "the metadata after a wrong answer, while the episode continues", wrong.metadata
    elif wrong is not None and wrong.refusal:
        yield "the refusal of a wrong answer", wrong.refusal


def _state(graded: GradedEnvironment, episode: GradedEpisode) -> Any:
    with suppress(OpenEnvError):
        graded.client.reset(**episode.task)
        state: Any = graded.client.state()
        return state if isinstance(state, Mapping) else state.model_dump(mode="json")
    return None


def _after_wrong(graded: GradedEnvironment, episode: GradedEpisode) -> GradedAnswer | None:
    field = graded.answer_field
    if field is None or field.role in (FieldRole.NUMBER, FieldRole.VALUES):
        return None
    with suppress(OpenEnvError, ValueError):
        return play_actions(graded.client, episode.task, [graded.action(field, WRONG, episode)]).last
    return None


def _leak(value: Any, answers: list[Any], *, is_prompt: bool) -> str | None:
    """Return the path at which an answer is shown; ``None`` where none is."""
    for path, each in strings_in(value):
        if isinstance(each, bool) or each is None or path.endswith(_KEYWORDS):
            continue
        for answer in answers:
            if _shows(path, each, answer, is_prompt=is_prompt):
                return path
    for path, each in _lists_in(value):
        if any(isinstance(answer, list) and answer and each == answer for answer in answers) and _NAMES.search(path):
            return path
    return None


def _shows(path: str, value: Any, answer: Any, *, is_prompt: bool) -> bool:
    if isinstance(answer, list | dict):
        return False
    wanted, found = normalised(answer), normalised(value)
    if not wanted:
        return False
    if found == wanted:
        names_it = bool(_NAMES.search(path))
        return names_it or (_is_specific(answer) and not is_prompt and "[" not in path)
    if not isinstance(value, str) or not isinstance(answer, str | int | float):
        return False
    text = str(answer).strip()
    at = value.find(text)
    while at >= 0:
        if _BESIDE.search(value[max(0, at - 60) : at]) and not _continues(value, at + len(text)):
            return True
        at = value.find(text, at + 1)
    return _is_specific(answer) and not is_prompt and wanted in found


def _continues(text: str, at: int) -> bool:
    return text[at : at + 1].isalnum()


def _is_specific(answer: Any) -> bool:
    """Return whether an answer is so long that it is nowhere by chance."""
    text = normalised(answer)
    return len(text) >= MIN_LETTERS and not (isinstance(answer, str) and answer.isdigit() and len(answer) < MIN_LETTERS)


def _lists_in(value: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    if isinstance(value, list):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _lists_in(each, f"{path}.{key}".lstrip("."))


LEAKAGE_CHECKS: tuple[Check[GradedEnvironment], ...] = (
    Check("semantic.no_solution_leakage", "the answer is nowhere before it is given", find_in_leakage),
)
