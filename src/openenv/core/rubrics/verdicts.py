"""Verdicts of judges: an object of JSON in a model's answer, read strictly, requested again where it is unreadable."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from openenv.core.llm_client import LLMClient

__all__ = ["Exchange", "VerdictError", "json_verdict", "request_verdict"]

VerdictT = TypeVar("VerdictT")

_LONGEST_QUOTE = 200
_BEGIN = re.compile(r"""\{\s*+["}]""")
# How often an answer is read in all, where it begins objects within objects that don't end.
_MOST_READINGS = 20
_AGAIN = "\n\nYour last answer could not be read: {reason} Answer again, with one object of JSON and nothing else."


class VerdictError(ValueError):
    """The verdict of a judge can't be read. No reward is made up in its place.

    Args:
        reason: What was expected and what came.
        answer: The judge's answer.
    """

    def __init__(self, reason: str, answer: str) -> None:
        self.reason = reason
        self.answer = answer
        super().__init__(f"{reason} The judge's answer: {answer!r:.{_LONGEST_QUOTE}}")


@dataclass(frozen=True)
class Exchange(Generic[VerdictT]):
    """What a judge was sent and answered.

    Attributes:
        verdict: What was read from the last answer.
        attempts: Each prompt with its answer, and its tokens where the server counts them.
    """

    verdict: VerdictT
    attempts: list[dict[str, Any]]


async def request_verdict(
    client: LLMClient, prompt: str, read: Callable[[str], VerdictT], attempts: int = 2
) -> Exchange[VerdictT]:
    """Put a prompt to a judge, again with what was wrong where the verdict can't be read.

    Args:
        client: Client of the judge.
        prompt: The prompt.
        read: Reads the verdict from an answer, and raises ``VerdictError`` where there is none.
        attempts: Answers after which an unreadable verdict is an error.

    Raises:
        VerdictError: No answer could be read.
    """
    made: list[dict[str, Any]] = []
    sent = prompt
    while True:
        answer = await client.respond(sent)
        usage = {} if answer.usage is None else {"usage": asdict(answer.usage)}
        made.append({"prompt": sent, "answer": answer.content, **usage})
        try:
            return Exchange(read(answer.content), made)
        except VerdictError as error:
            if len(made) >= attempts:
                raise
            sent = prompt + _AGAIN.format(reason=error.reason)


def json_verdict(answer: str) -> dict[str, Any]:
    """Return the one object of JSON in an answer; text and a code fence around it do not matter.

    Raises:
        VerdictError: There is none, there are several, or a name stands in it twice.

    Example:
        >>> json_verdict('I would say: {"score": 1}')
        {'score': 1}
    """
    decoder = json.JSONDecoder(object_pairs_hook=_without_repeats)
    found: list[dict[str, Any]] = []
    left = _MOST_READINGS * len(answer)
    begin = _BEGIN.search(answer)
    while begin:
        place = begin.start()
        try:
            value, end = decoder.raw_decode(answer, place)
        except _RepeatedNameError as error:
            raise VerdictError(f"Expected one verdict, got {error.name!r} twice.", answer) from None
        except RecursionError:
            raise VerdictError("Expected one object of JSON, got one that is nested too deeply.", answer) from None
        except ValueError as error:
            end = place + 1
            # An error without a position is of a number with too many digits; one with a position has counted the lines
            # before it, at some fifty times the speed.
            left -= getattr(error, "pos", len(answer)) - place + place // 50
            if left < 0:
                raise VerdictError("Expected one object of JSON, got too many beginnings of one.", answer) from None
        else:
            found.append(value)
        begin = _BEGIN.search(answer, end)
    if len(found) != 1:
        raise VerdictError(f"Expected one object of JSON, got {len(found) or 'none'}.", answer)
    return found[0]


def check_names(verdict: Mapping[str, Any], expected: list[str], answer: str) -> None:
    """Check that a verdict has the expected names, and no others.

    Raises:
        VerdictError: It does not.
    """
    missing = [name for name in expected if name not in verdict]
    unknown = [name for name in verdict if name not in expected]
    if missing or unknown:
        wrong = "; ".join(
            [
                *([f"missing {', '.join(missing)}"] if missing else []),
                *([f"unknown {', '.join(unknown)}"] if unknown else []),
            ]
        )
        raise VerdictError(f"Expected verdicts on {', '.join(expected)}: {wrong}.", answer)


class _RepeatedNameError(Exception):
    """A name stands twice in an object."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise _RepeatedNameError(name)
        fields[name] = value
    return fields
