"""Verdicts of judges: an object of JSON, or a number, in a model's answer.

They are read strictly, and requested again where they are unreadable. What a judge only quotes or mentions, such as the
verdict that an agent wishes for, is no verdict.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from openenv.core.exceptions import VerdictError
from openenv.core.llm_answers import without_reasoning
from openenv.core.llm_client import LLMResponse

__all__ = ["Exchange", "VerdictError", "json_verdict", "number_verdict", "request_verdict"]

VerdictT = TypeVar("VerdictT")

_QUOTE = "«»"
"""Stands for what a judge quotes; no score has it."""
_WORD = re.compile(r"[\w']+")
_FENCED = re.compile(r"(```|~~~)\w*\n(.*)\1", re.DOTALL)
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"|“[^“”\n]*”|"
    r"\u2018[^\u2018\u2019\n]*\u2019|„[^„“”\n]*[“”]|«[^«»\n]*»|^[ \t]*>[^\n]*",
    re.DOTALL | re.MULTILINE,
)
# Words of a line that leads to the words of another.
_SPEECH = re.compile(
    r"wrote|writes|said|says|states?|output|text|message|read|reads|see|found|told|contains?|includes?|included|quotes?|claims?|"
    r"instructions?|prompt|asks?|asked"
)
_SENTENCE_END = re.compile(r"(?<=[.!?\u2026])\s+|\n")
_LABELLED_REASON = re.compile(
    r"\n[ \t*_#-]*(?:reason(?:s|ing)?|rationale|explanation|justification)[ \t*_]*:(.*)", re.DOTALL | re.IGNORECASE
)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w|\.\d)")
# The end of the scale that a model names after its score, as in "0.75 out of 1" and "0.75/1.0".
_OUT_OF_ONE = re.compile(r"(?<=\d)\s*(?:/|out of)\s*1(?:\.0+)?(?!\.?\d)")
_GRADED = r"(?:it|(?:this|that|the)(?: (?:action|response|answer|reply|step|agent|observation|text))?)"
_LEAD = (
    rf"(?:(?:so|therefore|thus|overall|finally|in conclusion|in summary),? )?"
    # "Final score:", "The score for the text is"
    rf"(?:(?:(?:my|the|its|a) )?(?:(?:final|overall|total) )?"
    rf"(?:scores?|rating|grade|verdict|mark|reward|evaluation|assessment|judge?ment|quality)(?: (?:for|of) {_GRADED})?"
    rf"(?: ?[:=\-\u2013] ?| is[: ] ?| ?)"
    # "I would give it a score of", "I think this deserves a"
    rf"|i(?: would|'d| will|'ll| can| think| believe| find)*(?: that)? "
    rf"(?:(?:give|rate|score|grade|mark|assign|award|say)(?: {_GRADED})?|{_GRADED} (?:deserves|earns|gets|scores))"
    rf"(?: (?:as|at|an?|(?:an?|the) (?:score|rating|grade|mark|reward) of))?(?: |: ?))"
)
_REASON = rf",? (?:because\b|since\b|as {_GRADED} |(?:but|though|although) {_GRADED} (?:is|was|could)\b)(?P<reason>.*)"
_VERDICT = re.compile(
    rf"(?P<lead>{_LEAD})?(?P<number>-?\d+(?:\.\d+)?)(?: ?points?)?(?: ?\((?P=number)\))?(?:{_REASON}|[.!])?",
    re.IGNORECASE,
)
# Of a judge that gives no score after all.
_REFUSAL = re.compile(
    r"\b(?:cannot|can't|won't|(?:do|would|could)n't|(?:do|can|will|would|could) not|unable|refuse[sd]?|declined?|"
    r"unless|if|quoted|copied|injected|kidding|jok(?:e|es|ed|ing)|deserved?)\b",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"[*_]+|^\s*(?:#+|[-\u2022])\s")
_AGAIN = "\n\nYour last answer could not be read: {reason} Answer again, with one object of JSON and nothing else."


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
    respond: Callable[[str], Awaitable[LLMResponse]], prompt: str, read: Callable[[str], VerdictT], attempts: int = 2
) -> Exchange[VerdictT]:
    """Put a prompt to a judge, again with what was wrong where the verdict can't be read.

    Args:
        respond: Returns the judge's answer to a prompt.
        prompt: The prompt.
        read: Reads the verdict from an answer, and raises ``VerdictError`` where there is none.
        attempts: Answers after which an unreadable verdict is an error.

    Raises:
        VerdictError: No answer could be read.
    """
    made: list[dict[str, Any]] = []
    sent = prompt
    while True:
        answer = await respond(sent)
        usage = {} if answer.usage is None else {"usage": asdict(answer.usage)}
        made.append({"prompt": sent, "answer": answer.content, **usage})
        try:
            return Exchange(read(answer.content), made)
        except VerdictError as error:
            if len(made) >= attempts:
                raise
            sent = prompt + _AGAIN.format(reason=error.reason)


def json_verdict(answer: str) -> dict[str, Any]:
    """Return the object of JSON that an answer is; a code fence and a model's reasoning around it do not matter.

    Raises:
        VerdictError: The answer is something else, or a name stands in it twice.

    Example:
        >>> json_verdict('<think>It is right.</think> {"score": 1}')
        {'score': 1}
    """
    try:
        verdict = json.loads(_bare(answer), object_pairs_hook=_without_repeats)
    except _RepeatedNameError as error:
        raise VerdictError(f"Expected one verdict, got {error.name!r} twice.", answer) from None
    except (ValueError, RecursionError):
        raise VerdictError("Expected one object of JSON and nothing else.", answer) from None
    if not isinstance(verdict, dict):
        raise VerdictError("Expected one object of JSON and nothing else.", answer)
    return verdict


def number_verdict(answer: str) -> float:
    r"""Return the only number of an answer, where its last sentence is the score and nothing else.

    That sentence is the number, alone or as in ``Score: 0.8``, ``The score for this answer is 0.8 out of 1`` and
    ``I would give it 0.8``. A reason may follow that begins with *because*, *since* or *but it is*, or on lines behind
    a label such as ``Reason:``. An object of JSON has the score under such a name, and texts beside it.

    Raises:
        VerdictError: The last sentence is something else, there is no number or another one, or the judge refuses.

    Example:
        >>> number_verdict("It is polite.\nScore: 0.8"), number_verdict("I would give it 0.8, since it is polite.")
        (0.8, 0.8)
    """
    text = _QUOTED.sub(_QUOTE, _named_score(_bare(answer)))
    text = _OUT_OF_ONE.sub("", text.replace("\u2019", "'")).strip()
    found = _NUMBER.findall(text)
    if len({float(number) for number in found}) != 1:
        raise VerdictError(f"Expected one number, got {', '.join(found) or 'none'}.", answer)
    if not _ends_with_score(text):
        raise VerdictError(f"Expected one number, as a score that ends the answer, as in 'Score: {found[0]}'.", answer)
    return float(found[0])


def _named_score(answer: str) -> str:
    """Return the score in an object of JSON as a sentence, and any other answer as it is."""
    try:
        fields = json_verdict(answer)
    except VerdictError:
        return answer
    return "\n".join(
        f"{' '.join(name.replace('_', ' ').split())}: {value}"
        for name, value in fields.items()
        if not isinstance(value, str)
    )


def _ends_with_score(text: str) -> bool:
    """Return whether the last sentence is a score, with its reason at most, which nothing in the text takes back."""
    label = _LABELLED_REASON.search(text)
    return _is_score(text, "") or (label is not None and _is_score(text[: label.start()], label[1]))


def _is_score(text: str, labelled: str) -> bool:
    """Return whether a text ends with a score, which neither its own reason nor a labelled one takes back."""
    text = text.rstrip()
    start = max((end.end() for end in _SENTENCE_END.finditer(text)), default=0)
    before, sentence = text[:start], text[start:]
    verdict = _VERDICT.fullmatch(" ".join(_MARKUP.sub("", sentence).split()))
    if verdict is None or _introduces_quote(before):
        return False
    # A number without words for a score may be that of anything, such as the rule by which the judge refuses.
    reasons = f"{verdict['reason'] or ''}\n{labelled}\n{'' if verdict['lead'] else before}"
    return _REFUSAL.search(reasons) is None


def _introduces_quote(before: str) -> bool:
    """Return whether a text ends with a line that leads to the words of another."""
    line = " ".join(_MARKUP.sub("", before.rstrip().rpartition("\n")[2]).lower().split())
    if not line.endswith(":"):
        return False
    words = _WORD.findall(line)
    is_own = "i" in words or "my" in words
    return re.fullmatch(_LEAD, line) is None and (not is_own or any(map(_SPEECH.fullmatch, words)))


def _bare(answer: str) -> str:
    """Return an answer without reasoning before it and without a code fence around it."""
    rest = without_reasoning(answer)
    fenced = _FENCED.fullmatch(rest)
    return fenced[2].strip() if fenced else rest


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
