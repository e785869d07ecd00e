"""Requests for answers of a model behind an OpenAI-compatible address, and their tokens and cost."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, BadRequestError

from openenv.core.exceptions import ConfigurationError, ConnectionFailedError
from openenv.core.telemetry import CHAT, chat_request, genai_span, openai_answer
from openenv.train.episodes.played_episode import Message, Usage
from openenv.train.forms.openai_messages import to_openai

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

__all__ = ["request_answer", "usage_of"]


async def request_answer(
    api: AsyncOpenAI,
    model: str,
    settings: Mapping[str, Any],
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
) -> "ChatCompletion | None":
    """Request a model's answer, with further fields of the request; ``None`` where the conversation is too long for it.

    Raises:
        ConfigurationError: The model's server refuses the request.
        ConnectionFailedError: There is no server of the model, or it fails again and again.
    """
    offered: Any = {"tools": tools} if tools else {}
    sent: Any = to_openai(messages)
    request = chat_request("openai", model, str(api.base_url), sent, settings)
    completion: ChatCompletion
    try:
        with genai_span(CHAT, model, request) as found:
            completion = await api.chat.completions.create(model=model, messages=sent, **offered, **settings)
            found.update(openai_answer(completion))
    except BadRequestError as error:
        if any(message["role"] == "assistant" for message in messages):
            return None  # it accepted the conversation's beginning, so the conversation is too long
        raise ConfigurationError(f"The server of {model} refuses the request: {error.message}") from error
    except APIConnectionError as error:
        raise ConnectionFailedError(f"There is no answer from {api.base_url}: {error.message}") from error
    except APIStatusError as error:
        kind = ConfigurationError if error.status_code in (401, 403, 404, 422) else ConnectionFailedError
        raise kind(f"The server of {model} at {api.base_url} answers: {error.message}") from error
    return completion


def usage_of(completion: "ChatCompletion") -> Usage:
    """Return the tokens and the cost of an answer."""
    usage = completion.usage
    if usage is None:
        return Usage(model_version=completion.model)
    cost = (usage.model_extra or {}).get("cost")  # no field of OpenAI's; OpenRouter and LiteLLM have it
    known = float(cost) if isinstance(cost, int | float) else None
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, known, completion.model)
