"""BrowserGym's language of actions: calls such as ``click('12')``, read without ever running them as code."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openenv.core.exceptions import IllegalActionError

_CALL = re.compile(r"\b[A-Za-z_]\w*\(")
_LONGEST_QUOTE = 200


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        name: Name of the action.
        args: What is passed by position.
        kwargs: What is passed by name.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def parse_calls(text: str) -> list[Call]:
    """Find the calls in a text, which may have words around them, as models write them.

    Args:
        text: The text.

    Returns:
        The calls in their order, one at least.

    Raises:
        IllegalActionError: There is none, or one that can't be read: its arguments must be plain values.

    Example:
        >>> parse_calls("I fill it in: fill('42', 'some text')")
        [Call(name='fill', args=('42', 'some text'), kwargs={})]
    """
    calls = list(_calls(text))
    if not calls:
        raise IllegalActionError(
            f"Expected a call such as click('12') or fill('42', 'some text'), got {_quoted(text)}."
        )
    return calls


def _calls(text: str) -> Iterator[Call]:
    place = 0
    while found := _CALL.search(text, place):
        place = _end_of_call(text, found.start())
        yield _read(text[found.start() : place])


def _end_of_call(text: str, start: int) -> int:
    """Find where the bracket of a call closes; one inside quotes does not count."""
    source = text[start:]
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            depth += (token.string == "(") - (token.string == ")") if token.type == tokenize.OP else 0
            if token.string == ")" and token.type == tokenize.OP and depth == 0:
                lines_before = io.StringIO(source).readlines()[: token.end[0] - 1]
                return start + sum(map(len, lines_before)) + token.end[1]
    except (tokenize.TokenError, SyntaxError):
        pass
    raise _unreadable(source)


def _read(source: str) -> Call:
    try:
        call = ast.parse(source, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise _unreadable(source)
        args = tuple(ast.literal_eval(argument) for argument in call.args)
        kwargs = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise _unreadable(source) from error
    return Call(call.func.id, args, kwargs)


def _unreadable(source: str) -> IllegalActionError:
    return IllegalActionError(
        f"Can't read {_quoted(source)} as a call with plain values. A text stands in quotes that it does not hold "
        "itself, or has a backslash before them: fill('42', \"O'Connor\") or fill('42', 'O\\'Connor')."
    )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…")
