"""Requests for answers of a model behind an OpenAI-compatible address."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, BadRequestError

from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    FailureKind,
    ModelUnavailableError,
    OpenEnvError,
)
from openenv.core.llm_answers import ModelAnswer, RemoteModel
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.openai_messages import to_openai

__all__ = ["request_answer"]

# Of httpx or httpx2, by the version of openai.
_BROKEN_OFF = ("RemoteProtocolError", "ReadError", "EndOfStream")

_BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE)
_BUSY_WAITS_S = (1.0, 2.0, 4.0)
"""Seconds before a request is sent again to a server that is full, each after the attempts of openai's package."""


async def request_answer(
    api: AsyncOpenAI,
    model: str,
    settings: Mapping[str, Any],
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
) -> ModelAnswer | None:
    """Request a model's answer, with further fields of the request; ``None`` where the conversation is too long for it.

    A request that a full server (429, 502, 503) refuses is sent again, a few times, each after a longer wait.

    Raises:
        ConfigurationError: The model's server refuses the request.
        ConnectionFailedError: There is no server of the model.
        ModelUnavailableError: The server is full, fails, or does not answer, each time.
        ModelAnswerError: The server gives no answer to this conversation that can be read, each time.
    """
    waits = iter(_BUSY_WAITS_S)
    while True:
        try:
            return await _requested(api, model, settings, messages, tools)
        except APIStatusError as error:
            wait_s = next(waits, None)
            if wait_s is None or error.status_code not in _BUSY:
                raise _status_error(api, model, error) from error
        await asyncio.sleep(wait_s)


async def _requested(
    api: AsyncOpenAI,
    model: str,
    settings: Mapping[str, Any],
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
) -> ModelAnswer | None:
    """Request the answer as often as openai's package does."""
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


def _status_error(api: AsyncOpenAI, model: str, error: APIStatusError) -> OpenEnvError:
    """Return the error of a request that is refused, else the failure of its episode: others may do better."""
    text = f"The server of {model} at {api.base_url} answers: {error.message}"
    if error.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        return ModelUnavailableError(text, FailureKind.MODEL_FULL)
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ModelUnavailableError(text, FailureKind.MODEL_FAILED)
    return ConfigurationError(text)


def _connection_error(address: str, error: APIConnectionError) -> OpenEnvError:
    """Return the failure of an episode where a server breaks its answers off, else that of the server."""
    if type(error.__cause__).__name__ in _BROKEN_OFF:
        text = f"{address} breaks its answers off, again and again: {error.__cause__}"
        return ModelUnavailableError(text, FailureKind.MODEL_CUT)
    if isinstance(error, APITimeoutError):
        text = f"{address} gives no answer in time, again and again: {error.message}"
        return ModelUnavailableError(text, FailureKind.MODEL_TIMEOUT)
    return ConnectionFailedError(f"There is no answer from {address}: {error.message}")
