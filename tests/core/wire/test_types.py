"""The models on the wire."""

import math
from dataclasses import dataclass
from typing import Any, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from openenv.core.env_server import types
from openenv.core.wire.messages import (
    WSCloseMessage,
    WSErrorCode,
    WSErrorResponse,
    WSIncomingMessage,
    WSMCPMessage,
    WSMCPResponse,
    WSObservationResponse,
    WSResetMessage,
    WSStateMessage,
    WSStateResponse,
    WSStepMessage,
)
from openenv.core.wire.types import (
    Action,
    CodeExecResult,
    ConcurrencyConfig,
    EnvironmentMetadata,
    HealthResponse,
    HealthStatus,
    Observation,
    ResetRequest,
    ResetResponse,
    SchemaResponse,
    ServerCapacityStatus,
    ServerMode,
    SessionInfo,
    State,
    StepRequest,
    StepResponse,
)

FORBIDDING: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (Action, {}),
    (Observation, {}),
    (ResetResponse, {"observation": {}}),
    (StepResponse, {"observation": {}}),
    (CodeExecResult, {"stdout": "", "stderr": "", "exit_code": 0}),
    (EnvironmentMetadata, {"name": "n", "description": "d"}),
    (SchemaResponse, {"action": {}, "observation": {}, "state": {}}),
    (HealthResponse, {}),
    (ConcurrencyConfig, {}),
    (ServerCapacityStatus, {"active_sessions": 0, "max_sessions": 1}),
    (SessionInfo, {"session_id": "s", "created_at": 0, "last_activity_at": 0, "environment_type": "E"}),
    (WSResetMessage, {}),
    (WSStepMessage, {"data": {}}),
    (WSStateMessage, {}),
    (WSCloseMessage, {}),
    (WSMCPMessage, {"data": {}}),
    (WSObservationResponse, {"data": {}}),
    (WSStateResponse, {"data": {}}),
    (WSErrorResponse, {"data": {}}),
    (WSMCPResponse, {"data": {}}),
]
ALLOWING: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (State, {}),
    (ResetRequest, {}),
    (StepRequest, {"action": {}}),
]


def name_of(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else ""


@pytest.mark.parametrize(("model", "fields"), FORBIDDING, ids=name_of)
def test_no_unknown_field(model: type[BaseModel], fields: dict[str, Any]) -> None:
    model.model_validate(fields)
    with pytest.raises(ValidationError, match="extra_forbidden"):
        model.model_validate({**fields, "unknown": 1})


@pytest.mark.parametrize(("model", "fields"), ALLOWING, ids=name_of)
def test_unknown_fields_are_kept(model: type[BaseModel], fields: dict[str, Any]) -> None:
    assert model.model_validate({**fields, "unknown": 1}).model_dump()["unknown"] == 1


@pytest.mark.parametrize(("model", "fields"), [*FORBIDDING, *ALLOWING], ids=name_of)
def test_every_required_field_is_required(model: type[BaseModel], fields: dict[str, Any]) -> None:
    for missing in fields:
        with pytest.raises(ValidationError, match="Field required"):
            model.model_validate({name: value for name, value in fields.items() if name != missing})


def test_defaults() -> None:
    assert Action().model_dump() == {"metadata": {}}
    assert Observation().model_dump() == {"done": False, "reward": None, "metadata": {}}
    assert State().model_dump() == {"episode_id": None, "step_count": 0}
    assert ResetRequest().model_dump() == {"seed": None, "episode_id": None}
    assert StepRequest(action={}).model_dump() == {"action": {}, "timeout_s": None, "request_id": None}
    assert StepResponse(observation={}).model_dump() == {
        "observation": {},
        "reward": None,
        "done": False,
        "metadata": None,
    }
    assert HealthResponse().status is HealthStatus.HEALTHY
    assert ConcurrencyConfig().model_dump() == {"max_concurrent_envs": 1, "session_timeout": None}


def test_metadata_is_not_shared() -> None:
    Observation().metadata["x"] = 1
    assert Observation().metadata == {}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (ResetRequest, {"seed": -1}),
        (ResetRequest, {"episode_id": "x" * 256}),
        (StepRequest, {"action": 3}),
        (StepRequest, {"action": {}, "timeout_s": 0}),
        (StepRequest, {"action": {}, "timeout_s": -1}),
        (StepRequest, {"action": {}, "request_id": "x" * 256}),
        (State, {"step_count": -1}),
        (ConcurrencyConfig, {"max_concurrent_envs": 0}),
        (ConcurrencyConfig, {"session_timeout": 0}),
        (ServerCapacityStatus, {"active_sessions": -1, "max_sessions": 1}),
        (ServerCapacityStatus, {"active_sessions": 0, "max_sessions": 0}),
        (ServerCapacityStatus, {"active_sessions": 2, "max_sessions": 1}),
        (WSResetMessage, {"type": "step"}),
        (HealthResponse, {"status": "fine"}),
    ],
)
def test_values_out_of_range(model: type[BaseModel], fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(fields)


def test_assignment_is_validated() -> None:
    state = State()
    with pytest.raises(ValidationError):
        state.step_count = -1
    observation = Observation()
    with pytest.raises(ValidationError):
        observation.done = "perhaps"  # type: ignore[assignment]


class Scores(Observation):
    text: str = ""


class PositiveScores(Observation):
    reward: float = Field(default=0.0, ge=0)


class CheckedScores(Observation):
    @model_validator(mode="after")
    def _at_most_one(self) -> Self:
        if self.reward is not None and self.reward > 1:
            raise ValueError("more than 1")
        return self


class FixedScores(Observation):
    model_config = ConfigDict(frozen=True)


class StillCheckedScores(CheckedScores):
    pass


@pytest.mark.parametrize("reward", [0.5, math.inf, 1, True, None])
def test_a_reward_can_be_assigned(reward: Any) -> None:
    observation = Scores(text="hello", metadata={"seed": 1})
    observation.reward = reward
    assert (observation.reward, type(observation.reward)) == (reward, type(reward))
    assert observation == Scores(text="hello", reward=reward, metadata={"seed": 1})
    assert observation.model_dump(exclude_unset=True) == {"text": "hello", "reward": reward, "metadata": {"seed": 1}}


@pytest.mark.parametrize(
    ("observation", "reward"),
    [
        (Scores(), "a lot"),
        (PositiveScores(), -0.5),
        (CheckedScores(), 1.5),
        (StillCheckedScores(), 1.5),
        (FixedScores(), 0.5),
    ],
)
def test_a_reward_that_the_class_rejects_cannot_be_assigned(observation: Observation, reward: Any) -> None:
    with pytest.raises(ValidationError):
        observation.reward = reward


def test_an_attribute_that_is_no_field_cannot_be_assigned() -> None:
    with pytest.raises(ValueError, match="rewards"):
        Scores().rewards = 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize("reward", ["yes", "off", "1", "1.0", "", b"yes"])
def test_a_text_is_no_reward(reward: Any) -> None:
    """pydantic would pay True for "yes" and "1"."""
    with pytest.raises(ValidationError, match="expected a number or None, got the text"):
        Observation(reward=reward)
    observation = Observation(reward=0.5)
    with pytest.raises(ValidationError, match="expected a number or None, got the text"):
        observation.reward = reward
    assert observation.reward == 0.5


@pytest.mark.parametrize("reward", [True, False, 1, 0, 0.5])
def test_a_reward_keeps_its_kind(reward: Any) -> None:
    kept = Observation(reward=reward).reward
    assert (kept, type(kept)) == (reward, type(reward))


def test_capacity() -> None:
    status = ServerCapacityStatus.from_counts(1, 3)
    assert (status.available_slots, status.is_at_capacity) == (2, False)
    assert ServerCapacityStatus.from_counts(3, 3).is_at_capacity


def test_a_schema_without_a_reset_observation_has_no_such_key() -> None:
    schema = SchemaResponse(action={}, observation={}, state={})
    assert set(schema.model_dump()) == {"action", "observation", "state"}
    assert SchemaResponse(action={}, observation={}, state={}, reset_observation={"x": 1}).model_dump()[
        "reset_observation"
    ] == {"x": 1}


@pytest.mark.parametrize(
    ("kind", "message"),
    [("reset", WSResetMessage), ("state", WSStateMessage), ("close", WSCloseMessage)],
)
def test_incoming_messages_are_told_apart_by_their_type(kind: str, message: type) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(WSIncomingMessage)
    assert isinstance(adapter.validate_python({"type": kind}), message)
    assert isinstance(adapter.validate_python({"type": "step", "data": {}}), WSStepMessage)
    with pytest.raises(ValidationError):
        adapter.validate_python({"type": "mcp", "data": {}})


def test_enumerations_are_text() -> None:
    assert [str(mode) for mode in ServerMode] == ["simulation", "production"]
    assert {str(code) for code in WSErrorCode} >= {
        "INVALID_JSON",
        "UNKNOWN_TYPE",
        "VALIDATION_ERROR",
        "EXECUTION_ERROR",
        "CAPACITY_REACHED",
        "FACTORY_ERROR",
        "SESSION_ERROR",
        "TIMEOUT",
        "TOO_LARGE",
    }
    assert {str(status) for status in HealthStatus} == {"healthy", "unhealthy", "degraded"}


def test_every_public_model_has_a_docstring() -> None:
    for name, value in vars(types).items():
        if isinstance(value, type) and value.__module__ == types.__name__:
            assert value.__doc__, name


@pytest.mark.parametrize("base", [Action, Observation, State])
def test_a_model_that_was_made_a_dataclass_says_what_to_change(base: Any) -> None:
    @dataclass
    class Old(base):  # type: ignore[misc]
        text: str = ""

    class Older(Old):
        pass

    for model in (Old, Older):
        with pytest.raises(TypeError, match=f"{model.__name__} is a dataclass.*leave @dataclass out"):
            model(text="x")
