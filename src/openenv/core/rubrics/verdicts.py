"""Verdicts of judges: an object of JSON, or a number, in a model's answer.

They are read strictly, and requested again where they are unreadable. What a judge only quotes or mentions, such as the
verdict that an agent wishes for, is no verdict.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from openenv.core.llm_client import LLMClient

__all__ = ["Exchange", "VerdictError", "json_verdict", "number_verdict", "request_verdict"]

VerdictT = TypeVar("VerdictT")

_LONGEST_QUOTE = 200
_REASONING = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"(```|~~~)\w*\n(.*)\1", re.DOTALL)
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"|“[^“”\n]*”|"
    r"\u2018[^\u2018\u2019\n]*\u2019|„[^„“”\n]*[“”]|«[^«»\n]*»|^[ \t]*>[^\n]*",
    re.DOTALL | re.MULTILINE,
)
# A line that leads to the words of another, and the line behind it.
_INTRODUCED = re.compile(
    r"^(?P<lead>[^\n]*\b(?:wrote|writes|said|says|states?|output|text|message|reads|contains?|included?|quotes?|claims?|"
    r"instructions?|prompt|ask(?:s|ed))\b[^\n]*:)[ \t*_]*\n+[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w|\.\d)")
# The end of the scale that a model names after its score, as in "0.75 out of 1" and "0.75/1.0".
_OUT_OF_ONE = re.compile(r"(?<=\d)\s*(?:/|out of)\s*1(?:\.0+)?(?!\.?\d)")
_WORD = re.compile(r"[\w']+")
_SCORE = re.compile(
    r"scores?|scored|rating|rated?|graded?|verdict|mark|reward|evaluation|assessment|judge?ment|quality|"
    r"give|gave|assign|award|deserves|earns|gets|say"
)
# Words that may stand between one of these and the number.
_FILLER = re.compile(
    r"is|was|be|of|as|at|a|an|the|to|it|this|that|would|will|with|for|my|final|overall|just|i|am|here|"
    r"action|response|answer|reply|step|agent|observation"
)
_DENIAL = re.compile(
    r"not|cannot|\w+n't|never|unable|neither|nor|without|refused?|if|unless|whether|between|"
    r"highest|lowest|maximum|minimum|possible|example|rule|scale|asked|asks|says|said|claims|wrote|need"
)
# Of a judge that gives no score after all, behind the number; a reason there may have other denials.
_REFUSAL = re.compile(r"cannot|can't|couldn't|won't|wouldn't|don't|unable|refused?|unless|if|quoted|copied|injected")
# Words that may follow the number.
_FOLLOWING = re.compile(r"points?|because|for|since|as|overall|given|and|but|so")
_MARKUP = " \t*_)]}"
_QUESTION_END = f"{_MARKUP}!"
_MARKUP_BEFORE = " \t*_([#"
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
    r"""Return the only number of an answer, where it is clearly the score.

    It stands alone on a line, or a word for a score leads to it. Text in quotes does not count.

    Raises:
        VerdictError: There are none or several, the number is something else, or the score is denied.

    Example:
        >>> number_verdict("It is polite.\nScore: 0.8"), number_verdict("I would give it 0.8, since it is polite.")
        (0.8, 0.8)
    """
    bare = _bare(answer)
    try:
        named = json_verdict(bare)
    except VerdictError:
        text = _INTRODUCED.sub(_without_what_follows, _QUOTED.sub(" ", bare))
        text = _OUT_OF_ONE.sub("", text)
    else:
        text = "\n".join(f"{name}: {number}" for name, number in named.items() if not isinstance(number, str | bool))
    found = _NUMBER.findall(text)
    if len({float(number) for number in found}) != 1:
        raise VerdictError(f"Expected one number, got {', '.join(found) or 'none'}.", answer)
    sentences = _SENTENCE_END.split(text)
    is_last = _is_score_alone(sentences[-1]) and not _has(_DENIAL, text)
    if not (is_last or any(map(_is_score_alone, text.split("\n"))) or any(map(_gives_score, sentences))):
        raise VerdictError(f"Expected one number that is clearly the score, as in 'Score: {found[0]}'.", answer)
    return float(found[0])


def _bare(answer: str) -> str:
    """Return an answer without reasoning before it and without a code fence around it."""
    reasoning = _REASONING.match(answer)
    rest = answer[reasoning.end() :].strip() if reasoning else answer.strip()
    fenced = _FENCED.fullmatch(rest)
    return fenced[2].strip() if fenced else rest


def _without_what_follows(introduced: re.Match[str]) -> str:
    """Return a line that leads to the words of another without these, unless it leads to the judge's own score."""
    is_own = any(map(_SCORE.fullmatch, _words(introduced["lead"])))
    return introduced[0] if is_own else introduced["lead"]


def _is_score_alone(line: str) -> bool:
    """Return whether a line is a number, with nothing before it and a reason behind it at most."""
    number = _NUMBER.search(line)
    if number is None or line[: number.start()].strip(_MARKUP_BEFORE):
        return False
    rest = line[number.end() :].strip(_MARKUP)
    # A number with a dot, a bracket or a colon behind it, and then text, may be that of an item of a list.
    return rest in ("", ".", "!") or (rest[0] in ",;(-\u2013\u2014" and not _has(_REFUSAL, rest))


def _gives_score(sentence: str) -> bool:
    """Return whether a word for a score leads to the number of a sentence."""
    number = _NUMBER.search(sentence)
    if number is None or _has(_DENIAL, sentence[: number.start()]):
        return False
    after = sentence[number.end() :].strip(_MARKUP).lower()
    follows = _WORD.match(after)
    if (
        after.startswith("%")
        or sentence.rstrip(_QUESTION_END).endswith("?")
        or _has(_REFUSAL, after)
        or (follows and not _FOLLOWING.fullmatch(follows[0]))
    ):
        return False
    words = _words(sentence[: number.start()])
    while words and _FILLER.fullmatch(words[-1]):
        words.pop()
    return bool(words) and _SCORE.fullmatch(words[-1]) is not None


def _has(kind: re.Pattern[str], text: str) -> bool:
    return any(map(kind.fullmatch, _words(text)))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text.replace("\u2019", "'"))]


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
