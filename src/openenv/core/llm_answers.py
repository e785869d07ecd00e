"""Answers of language models' servers: one reader, and requests that are repeated where an answer can't be read."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from openenv.core.documents import read_arguments, without_half_pairs
from openenv.core.exceptions import ModelAnswerError
from openenv.core.telemetry import CHAT, chat_answer, chat_request, genai_span

__all__ = ["ModelAnswer", "RemoteModel", "WrittenCall", "anthropic_answer", "openai_answer", "without_reasoning"]

_LONGEST_QUOTE = 100
_REASONING = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


class WrittenCall(NamedTuple):
    """Call of a tool as a model wrote it; the arguments are JSON, which may be wrong, or their value."""

    id: str
    name: str
    written: Any


@dataclass(frozen=True)
class ModelAnswer:
    """Answer of a model; what its server does not report is ``None``.

    Attributes:
        text: The text, with a question mark for each half of a surrogate pair.
        calls: Calls of tools.
        input_tokens: Tokens of the request.
        output_tokens: Tokens of the answer.
        cost_usd: Their cost in US dollars.
        id: Id of the answer.
        model: The model, as its server names it.
        finish_reason: The reason why the answer ended.
        reasoning: The text of a model that reasons before it answers.
    """

    text: str
    calls: Sequence[WrittenCall] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    id: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    reasoning: str | None = None

    def message(self, *, with_calls: bool = True) -> dict[str, Any]:
        """Return the answer as a message of chat templates, whose calls have their arguments as a value."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls and with_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": read_arguments(call.written)},
                }
                for call in self.calls
            ]
        return message


@dataclass(frozen=True)
class RemoteModel:
    """Model behind an address.

    Attributes:
        provider: ``openai`` for every server with its interface, or ``anthropic``.
        name: Name of the model.
        address: URL of the server.
        retries: How often a request is repeated whose answer can't be read.
    """

    provider: Literal["openai", "anthropic"]
    name: str
    address: str
    retries: int

    async def answer(
        self,
        send: Callable[[], Awaitable[Any]],
        messages: Sequence[Mapping[str, Any]],
        settings: Mapping[str, Any],
    ) -> ModelAnswer:
        """Request an answer by ``send``; the span of each attempt has the messages and settings.

        Raises:
            ModelAnswerError: None of the answers could be read.
        """
        read = openai_answer if self.provider == "openai" else anthropic_answer
        attributes = chat_request(self.provider, self.name, self.address, messages, settings)
        attempts = 0
        while True:
            attempts += 1
            try:
                with genai_span(CHAT, self.name, attributes) as found:
                    answer = read(await send())
                    found.update(chat_answer(answer))
                    return answer
            # What is no JSON is a ValueError of the vendors' packages.
            except (ValueError, RecursionError) as error:
                if attempts > self.retries:
                    reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
                    raise ModelAnswerError(
                        f"{self.name} at {self.address} gave no answer that can be read, at attempt {attempts}: "
                        f"{reason}"
                    ) from error


def openai_answer(response: Any) -> ModelAnswer:
    """Read a completion of OpenAI's interface.

    Raises:
        ValueError: It is none.
    """
    choices: Any = getattr(response, "choices", None)
    message = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
    if _is_plain(message):
        raise ValueError(f"expected choices with a message, got {_described(response)}")
    calls = getattr(message, "tool_calls", None) or []
    if not isinstance(calls, list):
        raise ValueError(f"expected a list of tool calls, got {_quoted(calls)}")
    usage = getattr(response, "usage", None)
    cost = getattr(usage, "cost", None)  # no field of OpenAI's; OpenRouter and LiteLLM have it
    return ModelAnswer(
        _text(getattr(message, "content", None)),
        [_call(number, call) for number, call in enumerate(calls) if getattr(call, "type", None) != "custom"],
        _of_kind(int, getattr(usage, "prompt_tokens", None)),
        _of_kind(int, getattr(usage, "completion_tokens", None)),
        float(cost) if isinstance(cost, int | float) else None,
        _of_kind(str, getattr(response, "id", None)),
        _of_kind(str, getattr(response, "model", None)),
        _of_kind(str, getattr(choices[0], "finish_reason", None)),
        _reasoning(message),
    )


def anthropic_answer(response: Any) -> ModelAnswer:
    """Read a message of Anthropic's interface.

    Raises:
        ValueError: It is none.
    """
    content = getattr(response, "content", None)
    if not isinstance(content, list):
        raise ValueError(f"expected content of blocks, got {_described(response)}")
    used = [block for block in content if getattr(block, "type", None) == "tool_use"]
    usage = getattr(response, "usage", None)
    return ModelAnswer(
        _text(content),
        [_named_call(number, block, block, "input") for number, block in enumerate(used)],
        _of_kind(int, getattr(usage, "input_tokens", None)),
        _of_kind(int, getattr(usage, "output_tokens", None)),
        id=_of_kind(str, getattr(response, "id", None)),
        model=_of_kind(str, getattr(response, "model", None)),
        finish_reason=_of_kind(str, getattr(response, "stop_reason", None)),
    )


def without_reasoning(answer: str) -> str:
    """Return an answer without the reasoning that a model wrote before it, and without white space around it.

    Example:
        >>> without_reasoning("<think>Four is free.</think> 4")
        '4'
    """
    reasoning = _REASONING.match(answer)
    return (answer[reasoning.end() :] if reasoning else answer).strip()


def _text(content: Any) -> str:
    """Return the text of a message's content: a text, none, or parts, of which those of text count."""
    if content is None:
        return ""
    if isinstance(content, str):
        return str(without_half_pairs(content))
    if not isinstance(content, list):
        raise ValueError(f"expected content of text, got {_quoted(content)}")
    return "".join(map(_text_of_part, content))


def _reasoning(message: Any) -> str | None:
    """Return a message's reasoning, no field of OpenAI's; vLLM, DeepSeek, OpenRouter and others have it."""
    found = (_of_kind(str, getattr(message, name, None)) for name in ("reasoning_content", "reasoning"))
    return next((_text(text) for text in found if text), None)


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return _text(part)
    kind, text = _field(part, "type"), _field(part, "text")
    if kind != "text":
        return ""
    if not isinstance(text, str):
        raise ValueError(f"expected a part with a text, got {_quoted(part)}")
    return _text(text)


def _call(number: int, call: Any) -> WrittenCall:
    return _named_call(number, call, getattr(call, "function", None), "arguments")


def _named_call(number: int, call: Any, named: Any, arguments: str) -> WrittenCall:
    """Return a call, with an id of its own where it has none."""
    name = getattr(named, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"expected a tool call with the tool's name, got {_quoted(call)}")
    own = getattr(call, "id", None)
    # Nine letters and digits, which the strictest of the chat templates requires.
    identity = own if isinstance(own, str) and own else f"call{number:05}"
    return WrittenCall(_text(identity), _text(name), without_half_pairs(getattr(named, arguments, None)))


def _described(response: Any) -> str:
    """Return an answer that is none in words, with the error that it may have."""
    error = _field(response, "error")
    if error is not None:
        return f"an error: {_quoted(_field(error, 'message') or error)}"
    return _quoted(response) if response not in ("", None) else "nothing"


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _is_plain(value: Any) -> bool:
    """Return whether a value has no fields, as an object of the vendors' packages has."""
    return value is None or isinstance(value, str | int | float | list)


def _of_kind(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) else None


def _quoted(value: Any) -> str:
    return repr(value) if len(repr(value)) <= _LONGEST_QUOTE else f"{repr(value)[:_LONGEST_QUOTE]}..."
