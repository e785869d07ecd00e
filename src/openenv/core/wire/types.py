"""Models on the wire: actions, observations, states, requests, responses and messages."""

from dataclasses import is_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
    model_validator,
)

from openenv.core.plain_values import single_value

Scalar = bool | int | float


def _float_first(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Return a float as it is: most rewards are floats, and pydantic's search of a union takes four times as long."""
    if type(value) is float:
        return value
    if isinstance(value, str | bytes):  # pydantic would make True of "yes", and False of "off"
        raise ValueError(f"expected a number or None, got the text {value!r:.100}")
    return handler(single_value(value))


def dataclass_advice(model: Any) -> str | None:
    """Return what to change in a class that is a dataclass, as those of actions were in 0.1; ``None`` for others."""
    if not (isinstance(model, type) and is_dataclass(model)):
        return None
    return (
        f"{model.__name__} is a dataclass, as in OpenEnv 0.1: leave @dataclass out and derive it from Action, "
        "Observation or State, which are pydantic models; its fields stay as they are."
    )


class _Model(BaseModel):
    """Base of what authors derive from."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return an attribute of pydantic's, which no instance has that a dataclass's ``__init__`` has made."""
            if name.startswith("__pydantic_") and (advice := dataclass_advice(type(self))):
                raise TypeError(advice)
            return super().__getattr__(name)


_AUTHORED = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)


class Action(_Model):
    """Action of an agent in one step. Subclass it and add the fields.

    Attributes:
        metadata: Further values of the sender, which are not part of the action's meaning.

    Example:
        >>> class Guess(Action):
        ...     word: str
        >>> Guess(word="crane").model_dump()
        {'metadata': {}, 'word': 'crane'}
    """

    model_config = _AUTHORED

    metadata: dict[str, Any] = Field(default_factory=dict)


class Observation(_Model):
    """Observation after a reset or a step. Subclass it and add the fields.

    Attributes:
        done: Whether the episode has ended.
        reward: The reward of this step; ``None`` for no reward.
        metadata: Further values of the environment, which the agent does not see.
    """

    model_config = _AUTHORED

    done: bool = False
    reward: Annotated[Scalar | None, WrapValidator(_float_first)] = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    _accepts_every_float: ClassVar[bool] = True

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Note whether the class accepts every float as its reward, as ``Observation`` does."""
        super().__pydantic_init_subclass__(**kwargs)
        decorators = cls.__pydantic_decorators__
        cls._accepts_every_float = inherits_field(cls, "reward") and not (
            decorators.field_validators
            or decorators.model_validators
            or decorators.validators
            or decorators.root_validators
            or cls.model_config.get("frozen")
        )

    if not TYPE_CHECKING:  # or type checkers would accept the assignment of any attribute

        def __setattr__(self, name: str, value: Any) -> None:
            """Assign an attribute: a float as the reward without validation, which copies all fields."""
            if name == "reward" and type(value) is float and self._accepts_every_float:
                self.__dict__["reward"] = value
                self.__pydantic_fields_set__.add("reward")
            else:
                super().__setattr__(name, value)


def inherits_field(observation_class: type[BaseModel], name: str) -> bool:
    """Return whether a class of observations has a field as ``Observation`` declares it.

    Args:
        observation_class: The class.
        name: Name of a field of ``Observation``.
    """
    field = observation_class.model_fields.get(name)
    # The text has all that a field's declaration can say: its type, validators, serializers, aliases.
    return issubclass(observation_class, Observation) and repr(field) == repr(Observation.model_fields[name])


class State(_Model):
    """State of an episode, for trainers and people; an agent does not see it. Further fields are allowed.

    Attributes:
        episode_id: Id of the current episode.
        step_count: Steps since the last reset.
    """

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)


class BaseMessage(BaseModel):
    """Base of the messages that accept no unknown field."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class CodeExecResult(BaseMessage):
    """Result of running a piece of code."""

    stdout: str
    stderr: str
    exit_code: int


class EnvironmentMetadata(BaseMessage):
    """Metadata of an environment."""

    name: str
    description: str
    readme_content: str | None = None
    version: str | None = None
    author: str | None = None
    documentation_url: str | None = None


# --- HTTP requests and responses -------------------------------------------------------------------------------------


def _no_boolean(value: Any) -> Any:
    """Reject booleans, which pydantic would accept as 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("expected a number, got a boolean")
    return value


class ResetRequest(BaseModel):
    """Body of ``POST /reset``. Further fields are passed to the environment's ``reset``."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{}, {"seed": 42}]})

    seed: Annotated[int | None, BeforeValidator(_no_boolean)] = Field(default=None, ge=0)
    episode_id: str | None = Field(default=None, max_length=255)


class StepRequest(BaseModel):
    """Body of ``POST /step``. Further fields are passed to the environment's ``step`` if it accepts them.

    Attributes:
        action: The action's fields.
        timeout_s: Timeout of the step in seconds.
        request_id: Id of the request, for logs.
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
    """Answer to a failed request with a valid body. Further fields depend on the code.

    Attributes:
        detail: What was expected, what came, and what to do.
        code: As in an error frame; absent if the request failed before that.
    """

    model_config = ConfigDict(extra="allow")

    detail: str
    code: str | None = None


class SchemaResponse(BaseMessage):
    """JSON Schemas of the environment's types.

    Attributes:
        action: Schema of actions.
        observation: Schema of observations.
        state: Schema of the state.
        reset_observation: Schema of the observation after a reset, if it differs.
        reset: Schema of the parameters of a reset, if they are known.
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
    """Split of an environment's tasks, such as ``train`` or ``test``.

    Attributes:
        name: Name of the split.
        type: Purpose of the split.
    """

    name: str
    type: Literal["train", "validation", "test"]


class ListTasksRequest(BaseMessage):
    """Request for every task of a split."""

    split: str


class NumTasksRequest(BaseMessage):
    """Request for the number of tasks in a split."""

    split: str


class GetTaskRequest(BaseMessage):
    """Request for one task of a split."""

    split: str
    index: int


class GetTaskRangeRequest(BaseMessage):
    """Request for the tasks of a split from ``start`` up to ``stop``; ``None`` is its beginning or its end."""

    split: str
    start: int | None = None
    stop: int | None = None


class HealthStatus(StrEnum):
    """Health of a server."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"


class ReadyResponse(BaseMessage):
    """Whether a server opens new sessions; a full server is ready, too: it opens one when a slot becomes free."""

    status: Literal["ready", "draining"] = "ready"


class HealthResponse(BaseMessage):
    """Answer to ``GET /health``."""

    status: HealthStatus = HealthStatus.HEALTHY


# --- Sessions --------------------------------------------------------------------------------------------------------


class ServerMode(StrEnum):
    """Mode of a server: trainers may reset and step over HTTP (simulation), or it serves only agents (production)."""

    SIMULATION = "simulation"
    PRODUCTION = "production"


class ConcurrencyConfig(BaseMessage):
    """Limits of a server's sessions.

    Attributes:
        max_concurrent_envs: Sessions open at once.
        session_timeout: Seconds without a request after which a session is closed; ``None`` for no limit.
    """

    max_concurrent_envs: int = Field(default=1, ge=1)
    session_timeout: float | None = Field(default=None, gt=0)


class ServerCapacityStatus(BaseMessage):
    """Number of a server's sessions, and their limit."""

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
        """Make a status from the number of open sessions and the limit."""
        return cls(active_sessions=active, max_sessions=max_sessions)


class SessionInfo(BaseMessage):
    """Description of an open session. Times are seconds since the epoch."""

    session_id: str
    created_at: float
    last_activity_at: float
    step_count: int = Field(default=0, ge=0)
    environment_type: str
