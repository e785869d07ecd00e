"""The models on the wire: actions, observations, states, requests, responses and messages.

This is the ground floor. Nothing here does any work, and nothing here imports anything of OpenEnv.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Scalar = bool | int | float

_AUTHORED = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)


class Action(BaseModel):
    """What an agent does in one step. Subclass it and add the fields.

    Attributes:
        metadata: Anything the sender wants to pass along; not part of the action's meaning.

    Example:
        >>> class Guess(Action):
        ...     word: str
        >>> Guess(word="crane").model_dump()
        {'metadata': {}, 'word': 'crane'}
    """

    model_config = _AUTHORED

    metadata: dict[str, Any] = Field(default_factory=dict)


class Observation(BaseModel):
    """What an environment shows after a reset or a step. Subclass it and add the fields.

    Attributes:
        done: Whether the episode has ended.
        reward: The reward of this step, or ``None`` where there is none.
        metadata: Anything the environment reports beside what the agent sees.
    """

    model_config = _AUTHORED

    done: bool = False
    reward: Scalar | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class State(BaseModel):
    """Where an episode stands, for trainers and people; an agent does not see it. Further fields are allowed.

    Attributes:
        episode_id: Name of the running episode.
        step_count: Steps since the last reset.
    """

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)


class BaseMessage(BaseModel):
    """Base of the messages that accept no unknown field."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class CodeExecResult(BaseMessage):
    """What running a piece of code gave."""

    stdout: str
    stderr: str
    exit_code: int


class EnvironmentMetadata(BaseMessage):
    """What an environment says about itself."""

    name: str
    description: str
    readme_content: str | None = None
    version: str | None = None
    author: str | None = None
    documentation_url: str | None = None


# --- HTTP requests and responses -------------------------------------------------------------------------------------


def _no_boolean(value: Any) -> Any:
    """Refuse what pydantic would take for 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("expected a number, got a boolean")
    return value


class ResetRequest(BaseModel):
    """Body of ``POST /reset``. Further fields are passed to the environment's ``reset``."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{}, {"seed": 42}]})

    seed: Annotated[int | None, BeforeValidator(_no_boolean)] = Field(default=None, ge=0)
    episode_id: str | None = Field(default=None, max_length=255)


class StepRequest(BaseModel):
    """Body of ``POST /step``. Further fields are passed to the environment's ``step`` where it takes them.

    Attributes:
        action: The action's fields.
        timeout_s: Seconds that the step may take.
        request_id: Name for this request, for logs.
    """

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"action": {"message": "hello"}}]})

    action: dict[str, Any]
    timeout_s: Annotated[float | None, BeforeValidator(_no_boolean)] = Field(default=None, gt=0)
    request_id: str | None = Field(default=None, max_length=255)


class ResetResponse(BaseModel):
    """Answer to ``POST /reset``."""

    model_config = ConfigDict(extra="forbid")

    observation: dict[str, Any]
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None


class StepResponse(ResetResponse):
    """Answer to ``POST /step``."""


class ErrorResponse(BaseModel):
    """Answer to a request that failed, unless its body did not fit. Further fields go with the code.

    Attributes:
        detail: What was expected, what came, and what to do.
        code: As in an error frame; absent where the request did not get as far as that.
    """

    model_config = ConfigDict(extra="allow")

    detail: str
    code: str | None = None


class SchemaResponse(BaseMessage):
    """JSON Schemas of the environment's types.

    Attributes:
        action: Of actions.
        observation: Of observations.
        state: Of the state.
        reset_observation: Of the observation after a reset, where it differs.
        reset: Of the parameters of a reset, where they are known.
    """

    action: dict[str, Any]
    observation: dict[str, Any]
    state: dict[str, Any]
    reset_observation: dict[str, Any] | None = None
    reset: dict[str, Any] | None = None

    @model_serializer(mode="wrap")
    def _leave_out_what_is_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        return {
            name: value
            for name, value in dumped.items()
            if value is not None or name not in ("reset_observation", "reset")
        }


# --- Tasks -----------------------------------------------------------------------------------------------------------


class TaskSplit(BaseMessage):
    """A part of an environment's tasks, as in ``train`` and ``test``.

    Attributes:
        name: What it is called.
        type: What it is meant for.
    """

    name: str
    type: Literal["train", "validation", "test"]


class ListTasksRequest(BaseMessage):
    """Ask for every task of a split."""

    split: str


class NumTasksRequest(BaseMessage):
    """Ask how many tasks a split has."""

    split: str


class GetTaskRequest(BaseMessage):
    """Ask for one task of a split."""

    split: str
    index: int


class GetTaskRangeRequest(BaseMessage):
    """Ask for the tasks of a split from ``start`` up to ``stop``; ``None`` is its beginning or its end."""

    split: str
    start: int | None = None
    stop: int | None = None


class HealthStatus(StrEnum):
    """How a server is."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"


class ReadyResponse(BaseMessage):
    """Whether a server takes new sessions; one that is full still does, when a place is given back."""

    status: Literal["ready", "draining"] = "ready"


class HealthResponse(BaseMessage):
    """Answer to ``GET /health``."""

    status: HealthStatus = HealthStatus.HEALTHY


# --- Sessions --------------------------------------------------------------------------------------------------------


class ServerMode(StrEnum):
    """Whether trainers may drive the server's episodes over HTTP (simulation) or only agents (production)."""

    SIMULATION = "simulation"
    PRODUCTION = "production"


class ConcurrencyConfig(BaseMessage):
    """How many sessions a server holds, and for how long.

    Attributes:
        max_concurrent_envs: Sessions open at once.
        session_timeout: Seconds without a request after which a session is closed; ``None`` for never.
    """

    max_concurrent_envs: int = Field(default=1, ge=1)
    session_timeout: float | None = Field(default=None, gt=0)


class ServerCapacityStatus(BaseMessage):
    """How full a server is."""

    active_sessions: int = Field(ge=0)
    max_sessions: int = Field(ge=1)

    @model_validator(mode="after")
    def _active_within_limit(self) -> "ServerCapacityStatus":
        if self.active_sessions > self.max_sessions:
            raise ValueError(f"active_sessions ({self.active_sessions}) exceeds max_sessions ({self.max_sessions})")
        return self

    @property
    def available_slots(self) -> int:
        """Sessions that can still be opened."""
        return self.max_sessions - self.active_sessions

    @property
    def is_at_capacity(self) -> bool:
        """Whether no further session can be opened."""
        return self.available_slots == 0

    @classmethod
    def from_counts(cls, active: int, max_sessions: int) -> "ServerCapacityStatus":
        """Make a status from the two counts."""
        return cls(active_sessions=active, max_sessions=max_sessions)


class SessionInfo(BaseMessage):
    """One live session. Times are seconds since the epoch."""

    session_id: str
    created_at: float
    last_activity_at: float
    step_count: int = Field(default=0, ge=0)
    environment_type: str


# --- WebSocket messages ----------------------------------------------------------------------------------------------


class WSErrorCode(StrEnum):
    """The codes an error frame may carry."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"
    TIMEOUT = "TIMEOUT"
    TOO_LARGE = "TOO_LARGE"
    RATE_LIMITED = "RATE_LIMITED"


class WSResetMessage(BaseMessage):
    """Start an episode; ``data`` holds the arguments of ``reset``."""

    type: Literal["reset"] = "reset"
    data: dict[str, Any] = Field(default_factory=dict)


class WSStepMessage(BaseMessage):
    """Do one step; ``data`` holds the action's fields."""

    type: Literal["step"] = "step"
    data: dict[str, Any]


class WSStateMessage(BaseMessage):
    """Ask for the state."""

    type: Literal["state"] = "state"


class WSCloseMessage(BaseMessage):
    """End the session; it has no answer but the closing of the socket."""

    type: Literal["close"] = "close"


class WSMCPMessage(BaseMessage):
    """A JSON-RPC request of the Model Context Protocol in ``data``."""

    type: Literal["mcp"] = "mcp"
    data: dict[str, Any]


WSIncomingMessage = Annotated[
    WSResetMessage | WSStepMessage | WSStateMessage | WSCloseMessage, Field(discriminator="type")
]


class OpenArguments(BaseMessage):
    """What a client may say when it opens a session.

    Attributes:
        max_message_bytes: Longest answer that it takes, in bytes of UTF-8; ``None`` for any.
        wait_s: How long it waits in line where every place is taken; 0 to be refused at once.
    """

    max_message_bytes: int | None = Field(default=None, ge=1)
    wait_s: float = Field(default=0.0, ge=0, allow_inf_nan=False, strict=True)


class OpenMessage(BaseMessage):
    """Open a session, on v1 only; the answer names it."""

    type: Literal["open"] = "open"
    id: int
    data: OpenArguments = Field(default_factory=OpenArguments)


class AttachArguments(BaseMessage):
    """How a client takes up a session whose socket has gone.

    Attributes:
        token: What the server gave it with the session.
        answered: Number of the last request whose answer has arrived; 0 for none.
        max_message_bytes: Longest answer that it takes, in bytes of UTF-8; ``None`` for any.
    """

    token: str
    answered: int = Field(default=0, ge=0)
    max_message_bytes: int | None = Field(default=None, ge=1)


class AttachMessage(BaseMessage):
    """Take up a session whose socket has gone, on v1 only."""

    type: Literal["attach"] = "attach"
    id: int
    session: str
    data: AttachArguments


class ForkArguments(BaseMessage):
    """How a client forks a session.

    Attributes:
        count: Sessions that it wants, beside the one that is forked.
    """

    count: int = Field(ge=1)


class ForkMessage(BaseMessage):
    """Open sessions that continue from the state of this one, on v1 only."""

    type: Literal["fork"] = "fork"
    id: int
    session: str
    data: ForkArguments


class RenderMessage(BaseMessage):
    """Ask for a picture of where the episode stands, on v1 only."""

    type: Literal["render"] = "render"
    id: int
    session: str


class WSObservationResponse(BaseMessage):
    """Answer to a reset or a step."""

    type: Literal["observation"] = "observation"
    data: dict[str, Any]


class WSStateResponse(BaseMessage):
    """Answer to a state message."""

    type: Literal["state"] = "state"
    data: dict[str, Any]


class WSErrorResponse(BaseMessage):
    """Answer to a request that failed; ``data`` holds ``message``, ``code`` and what goes with the code."""

    type: Literal["error"] = "error"
    data: dict[str, Any]


class WSMCPResponse(BaseMessage):
    """Answer to an ``mcp`` message: a JSON-RPC response in ``data``."""

    type: Literal["mcp"] = "mcp"
    data: dict[str, Any]
