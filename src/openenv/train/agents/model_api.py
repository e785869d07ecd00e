"""Requests for answers of a model behind an OpenAI-compatible address."""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, BadRequestError

from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, ModelAnswerError, OpenEnvError
from openenv.core.llm_answers import ModelAnswer, RemoteModel
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.openai_messages import to_openai

__all__ = ["request_answer"]

# Of httpx or httpx2, by the version of openai.
_BROKEN_OFF = ("RemoteProtocolError", "ReadError", "EndOfStream")


async def request_answer(
    api: AsyncOpenAI,
    model: str,
    settings: Mapping[str, Any],
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
) -> ModelAnswer | None:
    """Request a model's answer, with further fields of the request; ``None`` where the conversation is too long for it.

    Raises:
        ConfigurationError: The model's server refuses the request.
        ConnectionFailedError: There is no server of the model, or it is not available, again and again.
        ModelAnswerError: The server gives no answer to this conversation that can be read, again and again.
    """
    offered: Any = {"tools": tools} if tools else {}
    sent: Any = to_openai(messages)
    address = str(api.base_url)
    try:
        return await RemoteModel("openai", model, address, api.max_retries).answer(
            partial(api.chat.completions.create, model=model, messages=sent, **offered, **settings), sent, settings
        )
    except BadRequestError as error:
        if any(message["role"] == "assistant" for message in messages):
            return None  # it accepted the conversation's beginning, so the conversation is too long
        raise ConfigurationError(f"The server of {model} refuses the request: {error.message}") from error
    except APIConnectionError as error:
        raise _connection_error(address, error) from error
    except APIStatusError as error:
        kind: type[OpenEnvError] = ConnectionFailedError
        if error.status_code in (401, 403, 404, 422):
            kind = ConfigurationError
        elif error.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = ModelAnswerError  # some servers fail at what the model wrote: other conversations may do better
        raise kind(f"The server of {model} at {address} answers: {error.message}") from error


def _connection_error(address: str, error: APIConnectionError) -> OpenEnvError:
    """Return the failure of an episode where a server breaks its answers off, else that of the server."""
    if type(error.__cause__).__name__ in _BROKEN_OFF:
        return ModelAnswerError(f"{address} breaks its answers off, again and again: {error.__cause__}")
    return ConnectionFailedError(f"There is no answer from {address}: {error.message}")
