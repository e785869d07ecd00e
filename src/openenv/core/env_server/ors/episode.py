"""Episode of a client of ORS: its prompt, its tools, and the calls under way."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from pydantic_core import from_json, to_json

from openenv.core.env_server.ors.event_stream import Event
from openenv.core.env_server.ors.messages import (
    Block,
    CallRefused,
    CallSucceeded,
    ImageBlock,
    TextBlock,
    ToolOutput,
)
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.state import Phase
from openenv.core.env_server.toolbox.toolbox import ToolCallResult
from openenv.core.exceptions import RequestError, ResetNeededError
from openenv.core.schema.reader import allows_null
from openenv.core.wire.answers import observation_json
from openenv.core.wire.errors import error_data
from openenv.core.wire.mcp_types import ToolErrorType
from openenv.core.wire.results import Outcome

logger = logging.getLogger(__name__)

# Seconds for which a client whose connection broke can request the answer to a call again.
_LINGER_S = 60.0
# Fields of an observation that hold the text for a language model.
_TEXT_FIELDS = ("prompt", "text")


class OrsEpisode:
    """Episode of a session of ORS, the only one of that session; it begins when this is made.

    Args:
        session: The session, not reset yet.
        arguments: Arguments of ``reset``.
    """

    def __init__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        self.session = session
        self._prompt: list[Block] = []
        self._failure: RequestError | None = None
        self._beginning = asyncio.create_task(self._begin(arguments))
        self._calls: dict[str, asyncio.Task[Event]] = {}

    async def begun(self, timeout_s: float) -> bool:
        """Wait until the episode has begun; ``False`` after the timeout, in seconds.

        Raises:
            RequestError: The ``reset`` failed.
        """
        done, _ = await asyncio.wait({self._beginning}, timeout=timeout_s)
        if self._failure is not None:
            raise self._failure
        return bool(done)

    @property
    def prompt(self) -> list[Block]:
        """Return the prompt of an episode that has begun."""
        return self._prompt

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, "asyncio.Task[Event]"]:
        """Call a tool.

        Returns:
            The call's id, and an awaitable of its result.
        """
        task_id = uuid4().hex
        call = asyncio.create_task(self._answer(name, arguments))
        self._calls[task_id] = call
        call.add_done_callback(partial(self._forget_later, task_id))
        return task_id, call

    def earlier_call(self, task_id: str) -> "asyncio.Task[Event] | None":
        """Return a recent call of this session; ``None`` if there is none with this id."""
        return self._calls.get(task_id)

    def end(self) -> None:
        """Cancel the calls under way: the session has ended."""
        self._beginning.cancel()
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()

    def _forget_later(self, task_id: str, _call: "asyncio.Task[Event]") -> None:
        asyncio.get_running_loop().call_later(_LINGER_S, self._calls.pop, task_id, None)

    async def _begin(self, arguments: Mapping[str, Any]) -> None:
        try:
            with self.session.request_errors("reset"):
                self._prompt = _prompt_of(await self.session.reset(arguments))
        except RequestError as error:
            self._failure = error

    async def _answer(self, name: str, arguments: Mapping[str, Any]) -> Event:
        try:
            with self.session.request_errors("tool call"):
                arguments = await self._without_unset(name, arguments)
                result = _result_of(await self.session.tools.call(name, arguments))
        except ResetNeededError as error:
            if self.session.episode.phase is not Phase.DONE:
                return _error_event(error)
            result = CallRefused(
                error=f"{name!r} was not run: the episode has finished, so no further tool calls are accepted.",
                reason="episode_finished",
            )
        except RequestError as error:
            return _error_event(error)
        return Event("end", result.model_dump_json())

    async def _without_unset(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments without unset ones, for which some clients, such as TRL's, send null."""
        if None not in arguments.values():
            return arguments
        tools = await self.session.tools.list()
        schema: Mapping[str, Any] = next((tool.input_schema for tool in tools if tool.name == name), {})
        properties = schema.get("properties", {})
        optional = [
            key for key in properties if key not in schema.get("required", ()) and not allows_null(properties[key])
        ]
        return {key: value for key, value in arguments.items() if value is not None or key not in optional}


def _error_event(error: RequestError) -> Event:
    return Event("error", str(error_data(error)["message"]))


def _prompt_of(outcome: Outcome) -> list[Block]:
    """Return a reset's observation for a model: its text for models if it has one, else its fields as JSON."""
    text = observation_json(outcome.observation)
    fields: dict[str, Any] = from_json(text)
    own = next((fields[name] for name in _TEXT_FIELDS if isinstance(fields.get(name), str) and fields[name]), None)
    if own is None:
        fields.pop("metadata", None)
        own = to_json(fields).decode()
    return [TextBlock(text=own)]


def _result_of(answer: ToolCallResult) -> CallSucceeded | CallRefused:
    """Return the result of a call. An error inside a tool is a result for the model: the episode goes on."""
    metadata = dict(answer.metadata)
    if answer.error is not None:
        if answer.error.error_type is ToolErrorType.TOOL_NOT_FOUND:
            return CallRefused(error=answer.error.message, reason="not_found")
        if answer.error.error_type is ToolErrorType.INVALID_ARGS:
            return CallRefused(error=answer.error.message, reason="input_validation")
        metadata["error"] = answer.error.model_dump(mode="json")
    output = ToolOutput(
        blocks=_blocks_of(answer),
        metadata=metadata or None,
        reward=None if answer.reward is None else float(answer.reward),
        finished=answer.done,
    )
    return CallSucceeded(output=output)


def _blocks_of(answer: ToolCallResult) -> list[Block]:
    blocks = [block for content in answer.content if (block := _block_of(content)) is not None]
    return blocks or [TextBlock(text=answer.text)]


def _block_of(content: Mapping[str, Any]) -> Block | None:
    """Convert a block of MCP to one of ORS, which has texts and pictures only."""
    if content.get("type") == "text":
        return TextBlock(text=str(content["text"]))
    if content.get("type") == "image":
        return ImageBlock(data=content["data"], mimeType=content["mimeType"])
    return None
