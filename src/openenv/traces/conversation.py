"""Parts of a conversation by the entries of its episode: what the model read, thought and did in each."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from openenv.traces.episodes import RESET, Entry
from openenv.traces.formats.messages import action_call

__all__ = ["ConversationPart", "call_line", "parts_of"]

Message: TypeAlias = Mapping[str, Any]

# Chat templates begin the reasoning for some models, so that only its end is in their text.
_REASONING = re.compile(r"\s*(?:<think>)?(.*?)(?:</think>|\Z)\s*(.*)", re.DOTALL)
_MARKS = ("<think>", "</think>")
# Actions without a step that are passed over for one that fits the next step.
_MOST_PASSED = 32


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """Part of a conversation that belongs to one entry of the episode.

    Attributes:
        before: Messages that led to no step, in order: actions that could not be read, and the answers to them.
        thought: The model's reasoning, and its text beside a tool call; empty for none.
        action: The action in the model's own words, a tool call as ``name(argument=value)``; ``None`` of a reset, and
            where the conversation has no action for the entry.
        is_verbatim: Whether the request on record says the same as the action.
        read: Messages that answered the action, or began the episode.
    """

    before: Sequence[Message] = ()
    thought: str = ""
    action: str | None = None
    is_verbatim: bool = False
    read: Sequence[Message] = ()


def parts_of(messages: Sequence[Message], entries: Sequence[Entry]) -> list[ConversationPart]:
    """Divide a conversation among the entries of its episode, in order.

    An action belongs to the next step. Where there are more actions than steps, since some could not be read, those are
    passed over that do not fit a step's request.

    Args:
        messages: The conversation in OpenAI's form.
        entries: The episode's entries; of each, kind and request are looked at.

    Returns:
        A part for each entry, and one more where messages are left at the end.
    """
    steps = sum(entry.kind != RESET for entry in entries)
    opening, moves = _moves(messages, steps)
    parts: list[ConversationPart] = []
    at, spare = 0, len(moves) - steps
    for entry in entries:
        if entry.kind == RESET:
            parts.append(ConversationPart(read=opening))
            opening = []
            continue
        found = at + _passed(moves, at, spare, entry.request)
        spare -= found - at
        before = [*opening, *chain.from_iterable(move.messages for move in moves[at:found])]
        parts.append(moves[found].part(entry.request, before) if found < len(moves) else ConversationPart(before))
        opening, at = [], found + 1
    rest = [*opening, *chain.from_iterable(move.messages for move in moves[at:])]
    return [*parts, ConversationPart(rest)] if rest else parts


def call_line(function: Mapping[str, Any]) -> str:
    """Return a function of a tool call as ``name(argument=value)``."""
    arguments = _arguments(function)
    if not isinstance(arguments, Mapping):
        return f"{function['name']}({arguments})"
    return f"{function['name']}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


class _Move(NamedTuple):
    """Action of the model.

    Attributes:
        message: The message that it is in; of several calls in one, only the first has the message.
        calls: Functions of its tool calls; none where it is a text.
        answers: Messages that answered it.
    """

    message: Message | None
    calls: Sequence[Mapping[str, Any]]
    answers: Sequence[Message]

    @property
    def messages(self) -> list[Message]:
        return [*(() if self.message is None else (self.message,)), *self.answers]

    def part(self, request: Any, before: Sequence[Message]) -> ConversationPart:
        thought, text = _thought_and_text({} if self.message is None else self.message)
        if self.calls:
            thought = "\n\n".join(filter(None, (thought, text)))
            text = "\n".join(call_line(call) for call in self.calls)
        return ConversationPart(before, thought, text, self._is_verbatim(request, text), self.answers)

    def fits(self, request: Any) -> bool:
        """Return whether the action may have led to a step of this request."""
        if not isinstance(request, Mapping):
            return True
        if not self.calls:
            text = _thought_and_text(self.message or {})[1]
            return all(str(value) in text for value in _fields(request).values() if isinstance(value, str | int))
        name, arguments = self.calls[0]["name"], _arguments(self.calls[0])
        called = action_call(request)
        if called is not None:
            return called == (name, arguments)
        return isinstance(arguments, Mapping) and all(request.get(name) == arguments[name] for name in arguments)

    def _is_verbatim(self, request: Any, text: str) -> bool:
        if not isinstance(request, Mapping):
            return bool(request == text)
        fields = _fields(request)
        if self.message is not None and fields and all(self.message.get(name) == fields[name] for name in fields):
            return True  # of a conversation that was recorded elsewhere, the request is the message
        if len(self.calls) == 1:
            arguments = _arguments(self.calls[0])
            return action_call(request) == (self.calls[0]["name"], arguments) or fields == arguments
        values = [str(value) for value in fields.values()]
        return values == [text.strip()] or _parsed(text) == fields


def _moves(messages: Sequence[Message], steps: int) -> tuple[list[Message], list[_Move]]:
    """Return the messages before the first action, and the actions; a message with several calls is as many."""
    starts = [number for number, message in enumerate(messages) if message.get("role") == "assistant"]
    opening = list(messages[: starts[0]] if starts else messages)
    moves: list[_Move] = []
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=False):
        calls = [call["function"] for call in messages[start].get("tool_calls") or ()]
        answers = list(messages[start + 1 : end])
        if len(calls) < 2 or len(starts) == steps:
            moves.append(_Move(messages[start], calls, answers))
        else:
            moves += _separated(messages[start], calls, answers)
    return opening, moves


def _separated(message: Message, calls: Sequence[Mapping[str, Any]], answers: list[Message]) -> Iterator[_Move]:
    """Iterate over the calls of one message, each with its tool's answer; the last one has all that follows."""
    for number, call in enumerate(calls):
        is_last = number == len(calls) - 1
        count = len(answers) if is_last else int(bool(answers) and answers[0].get("role") == "tool")
        yield _Move(None if number else message, [call], answers[:count])
        answers = answers[count:]


def _passed(moves: Sequence[_Move], at: int, spare: int, request: Any) -> int:
    """Return how many actions led to no step before one that fits a request; none where no one fits."""
    nearest = moves[at : at + min(spare, _MOST_PASSED) + 1] if spare > 0 else ()
    return next((number for number, move in enumerate(nearest) if move.fits(request)), 0)


def _thought_and_text(message: Message) -> tuple[str, str]:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "\n".join(filter(None, map(_text_of, content)))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    thought = reasoning if isinstance(reasoning, str) else ""
    if any(mark in text for mark in _MARKS) and (found := _REASONING.fullmatch(text)):
        thought, text = "\n\n".join(filter(None, (thought, found[1].strip()))), found[2]
    return thought, text


def _text_of(block: Any) -> str:
    """Return the text of a block of a message's content; of another block, its type."""
    if not isinstance(block, Mapping):
        return str(block)
    return block["text"] if isinstance(block.get("text"), str) else f"[{block.get('type')}]"


def _arguments(function: Mapping[str, Any]) -> Any:
    """Return a call's arguments, which may be on record as JSON."""
    given = function.get("arguments")
    parsed = _parsed(given) if isinstance(given, str) else given
    return given if parsed is None else parsed


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _fields(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "metadata"}
