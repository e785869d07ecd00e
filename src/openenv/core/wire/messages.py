"""Requests and their messages on the wire: types, fields and decoded forms.

A message is one JSON object with a ``type``. On the **legacy** wire a text frame holds one message, and requests are
answered in order. On **v1** a frame holds one message or an array of messages; each has an ``id``, which its answer
repeats, and each but ``open`` names a ``session``; steps and resets of many sessions may be one message, with columns.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, Field

from openenv.core.exceptions import ErrorCode, RequestError
from openenv.core.wire.arrays import Written
from openenv.core.wire.types import BaseMessage

WSErrorCode = ErrorCode
"""Public name of ``ErrorCode``."""


class MessageType(StrEnum):
    """Type of a message: first those of requests, then those of answers alone."""

    RESET = "reset"
    STEP = "step"
    STATE = "state"
    CLOSE = "close"
    MCP = "mcp"
    OPEN = "open"
    ATTACH = "attach"
    FORK = "fork"
    RENDER = "render"
    OBSERVATION = "observation"
    PICTURE = "picture"
    OPENED = "opened"
    ATTACHED = "attached"
    FORKED = "forked"
    CLOSED = "closed"
    ERROR = "error"


class Request(NamedTuple):
    """Request on the legacy wire.

    Attributes:
        type: ``reset``, ``step``, ``state``, ``close`` or ``mcp``.
        data: Arguments of a reset, fields of a step's action, or a JSON-RPC request.
    """

    type: str
    data: dict[str, Any]


class V1Request(NamedTuple):
    """Request on v1.

    Attributes:
        type: ``open``, ``attach``, ``fork``, ``render``, or a type of the legacy wire.
        data: As on the legacy wire.
        id: Number of the request, for its answer.
        session: Id of the session; empty for ``open``.
        action: The action of a step, if it was validated together with those of other sessions; else ``None``.
    """

    type: str
    data: dict[str, Any]
    id: int
    session: str
    action: BaseModel | None = None


class Refusal(NamedTuple):
    """Invalid message of v1.

    Attributes:
        error: The error to answer with.
        id: The message's number, if it has one.
        session: The message's session, if it names one.
        type: Empty: the message may have had none.
    """

    error: RequestError
    id: int | None
    session: str | None
    type: str = ""


class Answer(NamedTuple):
    """Answer on v1, which becomes JSON with its frame.

    Attributes:
        type: Type of the answer; empty if ``text`` is the whole message, as that of an error is.
        text: The answer's ``data`` as JSON, perhaps with arrays beside it, or the whole message.
        id: Number of the request; ``None`` for an error without one.
        session: Id of the session, made by the server; ``None`` for an error without one.
    """

    type: str
    text: Written
    id: int | None
    session: str | None


# As ``_make`` of the two classes, in half of its time, for each step of v1.
quick_request = cast("Callable[[tuple[Any, ...]], V1Request]", partial(tuple.__new__, V1Request))
quick_answer = cast("Callable[[tuple[Any, ...]], Answer]", partial(tuple.__new__, Answer))


# --- Requests --------------------------------------------------------------------------------------------------------


class WSResetMessage(BaseMessage):
    """Request that starts an episode; ``data`` holds the arguments of ``reset``."""

    type: Literal["reset"] = "reset"
    data: dict[str, Any] = Field(default_factory=dict)


class WSStepMessage(BaseMessage):
    """Request for one step; ``data`` holds the action's fields."""

    type: Literal["step"] = "step"
    data: dict[str, Any]


class WSStateMessage(BaseMessage):
    """Request for the state."""

    type: Literal["state"] = "state"


class WSCloseMessage(BaseMessage):
    """Request that closes the session; its only answer is the closing of the socket."""

    type: Literal["close"] = "close"


class WSMCPMessage(BaseMessage):
    """JSON-RPC request of the Model Context Protocol in ``data``."""

    type: Literal["mcp"] = "mcp"
    data: dict[str, Any]


WSIncomingMessage = Annotated[
    WSResetMessage | WSStepMessage | WSStateMessage | WSCloseMessage, Field(discriminator="type")
]


class OpenArguments(BaseMessage):
    """Arguments with which a client opens a session.

    Attributes:
        max_message_bytes: Longest answer that the client accepts, in bytes of UTF-8; ``None`` for no limit.
        wait_s: Seconds to wait in the queue for a slot if the server is full; 0 for an error at once.
    """

    max_message_bytes: int | None = Field(default=None, ge=1)
    wait_s: float = Field(default=0.0, ge=0, allow_inf_nan=False, strict=True)


class OpenMessage(BaseMessage):
    """Request that opens a session, on v1 only; the answer has the session's id."""

    type: Literal["open"] = "open"
    id: int
    data: OpenArguments = Field(default_factory=OpenArguments)


class AttachArguments(BaseMessage):
    """Arguments with which a client resumes a session whose socket was lost.

    Attributes:
        token: Token of the session, from the answer to ``open``.
        answered: Number of the last request whose answer has arrived; 0 for none.
        max_message_bytes: Longest answer that the client accepts, in bytes of UTF-8; ``None`` for no limit.
    """

    token: str
    answered: int = Field(default=0, ge=0)
    max_message_bytes: int | None = Field(default=None, ge=1)


class AttachMessage(BaseMessage):
    """Request that resumes a session whose socket was lost, on v1 only."""

    type: Literal["attach"] = "attach"
    id: int
    session: str
    data: AttachArguments


class ForkArguments(BaseMessage):
    """Arguments with which a client forks a session.

    Attributes:
        count: Number of new sessions.
    """

    count: int = Field(ge=1)


class ForkMessage(BaseMessage):
    """Request that opens sessions from the state of this one, on v1 only."""

    type: Literal["fork"] = "fork"
    id: int
    session: str
    data: ForkArguments


class RenderArguments(BaseMessage):
    """Arguments with which a page renders an observation.

    Attributes:
        observation: The observation, with ``reward`` and ``done``; ``None`` for a picture alone.
    """

    observation: dict[str, Any] | None = None


class RenderMessage(BaseMessage):
    """Request for a picture of the episode, or for all that a page shows of an observation, on v1 only."""

    type: Literal["render"] = "render"
    id: int
    session: str
    data: RenderArguments = Field(default_factory=RenderArguments)


# --- Answers ---------------------------------------------------------------------------------------------------------


class WSObservationResponse(BaseMessage):
    """Answer to a reset or a step."""

    type: Literal["observation"] = "observation"
    data: dict[str, Any]


class WSStateResponse(BaseMessage):
    """Answer to a state message."""

    type: Literal["state"] = "state"
    data: dict[str, Any]


class WSErrorResponse(BaseMessage):
    """Answer to a failed request; ``data`` holds ``message``, ``code`` and further fields of the code."""

    type: Literal["error"] = "error"
    data: dict[str, Any]


class WSMCPResponse(BaseMessage):
    """Answer to an ``mcp`` message: a JSON-RPC response in ``data``."""

    type: Literal["mcp"] = "mcp"
    data: dict[str, Any]
