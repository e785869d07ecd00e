"""Parts of a conversation by the entries of its episode: the model's input, thought and action in each."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from openenv.core.documents import read_arguments
from openenv.traces.episodes import RESET, Entry
from openenv.traces.formats.messages import action_call

__all__ = ["ConversationPart", "call_line", "parts_of", "words_of"]

Message: TypeAlias = Mapping[str, Any]

# Chat templates begin the reasoning for some models, so that only its end is in their text.
_REASONING = re.compile(r"\s*(?:<think>)?(.*?)(?:</think>|\Z)\s*(.*)", re.DOTALL)
_MARKS = ("<think>", "</think>")
# Actions without a step that are passed over for an action that fits the next step.
_MAX_PASSED = 32


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """Part of a conversation that belongs to one entry of the episode.

    Attributes:
        before: Positions, the second one past the end, of messages that led to no step: actions that could not be read,
            and the answers to them.
        thought: The model's reasoning, and its text beside a tool call; empty for none.
        action: The action in the model's words, a tool call as ``name(argument=value)``; ``None`` of a reset, and
            where the conversation has no action for the entry.
        is_verbatim: Whether the request on record is the action's text.
        read: Positions of the messages that answered the action, or began the episode.
    """

    before: tuple[int, int] = (0, 0)
    thought: str = ""
    action: str | None = None
    is_verbatim: bool = False
    read: tuple[int, int] = (0, 0)


def parts_of(messages: Sequence[Message], entries: Sequence[Entry]) -> list[ConversationPart]:
    """Divide a conversation among the entries of its episode, in order.

    An action belongs to the next step. Where there are more actions than steps, since some could not be read, those are
    passed over that do not fit a step's request.

    Args:
        messages: The conversation in OpenAI's form.
        entries: The episode's entries, of which kind and request count.

    Returns:
        A part for each entry, and one more where messages are left at the end.
    """
    steps = sum(entry.kind != RESET for entry in entries)
    moves = _moves(messages, steps)
    opening = moves[0].start if moves else len(messages)
    parts: list[ConversationPart] = []
    end, at, spare = 0, 0, len(moves) - steps
    for entry in entries:
        if entry.kind == RESET:
            parts.append(ConversationPart((end, end), read=(end, max(end, opening))))
        else:
            found = at + _passed(moves, at, spare, entry.request)
            spare -= found - at
            if found < len(moves):
                parts.append(moves[found].part(entry.request, end))
            else:
                parts.append(ConversationPart((end, end), read=(end, end)))
            at = found + 1
        end = parts[-1].read[1]
    rest = len(messages)
    return [*parts, ConversationPart((end, rest), read=(rest, rest))] if end < rest else parts


def call_line(function: Mapping[str, Any]) -> str:
    """Return a function of a tool call as ``name(argument=value)``."""
    arguments = read_arguments(function.get("arguments"))
    if not isinstance(arguments, Mapping):
        return f"{function['name']}({arguments})"
    return f"{function['name']}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def words_of(message: Message) -> str:
    """Return the words of a model's message: its reasoning, its text and its calls, each on lines of its own."""
    calls = [call_line(call["function"]) for call in message.get("tool_calls") or ()]
    return "\n".join(filter(None, (*_thought_and_text(message), *calls)))


class _Move(NamedTuple):
    """Action of the model.

    Attributes:
        start: Position of its message, or where the answers begin.
        message: The message that it is in; of several calls in one, only the first has the message.
        calls: Functions of its tool calls; none where it is a text.
        end: Position past the messages that answered it.
    """

    start: int
    message: Message | None
    calls: Sequence[Mapping[str, Any]]
    end: int

    def part(self, request: Any, end: int) -> ConversationPart:
        """Return the part of an entry with this request; ``end`` is where the part before it ends."""
        thought, text = _thought_and_text({} if self.message is None else self.message)
        if self.calls:
            thought = "\n\n".join(filter(None, (thought, text)))
            text = "\n".join(call_line(call) for call in self.calls)
        read = (self.start + (self.message is not None), self.end)
        return ConversationPart((end, self.start), thought, text, self._is_verbatim(request, text), read)

    def fits(self, request: Any) -> bool:
        """Return whether the action may have led to a step of this request."""
        if not isinstance(request, Mapping):
            return True
        if not self.calls:
            text = _thought_and_text(self.message or {})[1]
            return all(str(value) in text for value in _fields(request).values() if isinstance(value, str | int))
        name, arguments = self.calls[0]["name"], read_arguments(self.calls[0].get("arguments"))
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
            arguments = read_arguments(self.calls[0].get("arguments"))
            return action_call(request) == (self.calls[0]["name"], arguments) or fields == arguments
        values = [str(value) for value in fields.values()]
        return values == [text.strip()] or (bool(text) and read_arguments(text) == fields)


def _moves(messages: Sequence[Message], steps: int) -> list[_Move]:
    """Return the actions of a conversation; a message with several calls is as many."""
    starts = [number for number, message in enumerate(messages) if message.get("role") == "assistant"]
    moves: list[_Move] = []
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=False):
        calls = [call["function"] for call in messages[start].get("tool_calls") or ()]
        if len(calls) < 2 or len(starts) == steps:
            moves.append(_Move(start, messages[start], calls, end))
        else:
            moves += _separated(messages, start, calls, end)
    return moves


def _separated(
    messages: Sequence[Message], start: int, calls: Sequence[Mapping[str, Any]], end: int
) -> Iterator[_Move]:
    """Iterate over the calls of one message, each with its tool's answer; the last one has all that follows."""
    answered = start + 1
    for number, call in enumerate(calls):
        begin = answered
        if number == len(calls) - 1:
            answered = end
        elif answered < end and messages[answered].get("role") == "tool":
            answered += 1
        yield _Move(begin if number else start, None if number else messages[start], [call], answered)


def _passed(moves: Sequence[_Move], at: int, spare: int, request: Any) -> int:
    """Return the number of actions that led to no step before an action that fits a request; 0 where none fits."""
    nearest = moves[at : at + min(spare, _MAX_PASSED) + 1] if spare > 0 else ()
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


def _fields(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "metadata"}
