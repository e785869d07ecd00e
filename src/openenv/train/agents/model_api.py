"""A model behind an OpenAI-compatible address: requests for its answers, with what they cost."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, BadRequestError

from openenv.core.exceptions import ConfigurationError, ConnectionFailedError
from openenv.core.telemetry import CHAT, chat_request, genai_span, openai_answer
from openenv.train.episodes.messages import Message
from openenv.train.episodes.played_episode import Usage
from openenv.train.forms.openai_messages import to_openai

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

__all__ = ["ModelApi", "usage_of"]


class ModelApi:
    """Requests answers of a model.

    Args:
        api: The client of the model's server, open.
        name: The model's name there.
        settings: Further fields of every request.
    """

    def __init__(self, api: AsyncOpenAI, name: str, settings: Mapping[str, Any]) -> None:
        self._api = api
        self._name = name
        self._settings = settings

    async def answer(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> "ChatCompletion | None":
        """Return the model's answer; ``None`` where the conversation has grown too long for it.

        Raises:
            ConfigurationError: The model's server refuses the request.
            ConnectionFailedError: There is no server of the model, or it fails again and again.
        """
        offered: Any = {"tools": tools} if tools else {}
        sent: Any = to_openai(messages)
        request = chat_request("openai", self._name, str(self._api.base_url), sent, self._settings)
        completion: ChatCompletion
        try:
            with genai_span(CHAT, self._name, request) as found:
                completion = await self._api.chat.completions.create(
                    model=self._name, messages=sent, **offered, **self._settings
                )
                found.update(openai_answer(completion))
        except BadRequestError as error:
            if any(message["role"] == "assistant" for message in messages):
                return None  # what it took before it takes no more: the conversation is too long
            raise ConfigurationError(f"The server of {self._name} refuses the request: {error.message}") from error
        except APIConnectionError as error:
            raise ConnectionFailedError(f"There is no answer from {self._api.base_url}: {error.message}") from error
        except APIStatusError as error:
            kind = ConfigurationError if error.status_code in (401, 403, 404, 422) else ConnectionFailedError
            raise kind(f"The server of {self._name} at {self._api.base_url} answers: {error.message}") from error
        return completion


def usage_of(completion: "ChatCompletion") -> Usage:
    """Return the tokens and the cost of an answer."""
    usage = completion.usage
    if usage is None:
        return Usage(model_version=completion.model)
    cost = (usage.model_extra or {}).get("cost")  # no field of OpenAI's; OpenRouter and LiteLLM have it
    known = float(cost) if isinstance(cost, int | float) else None
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0, known, completion.model)
