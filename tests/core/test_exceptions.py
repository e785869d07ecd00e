"""Errors: one tree, data in attributes, sentences that help, and the way over the wire and back."""

import copy
import inspect
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core import exceptions
from openenv.core.exceptions import (
    AcquiredElsewhereError,
    AnswerTooLargeError,
    ClientCapacityError,
    ClientModeError,
    ConcurrencyConfigurationError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    DrainingError,
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentNotFoundError,
    EnvironmentProcessEndedError,
    EnvironmentTimeoutError,
    EpisodeOrderError,
    ErrorCode,
    FailureKind,
    ForkError,
    GitServerError,
    HandleUsedError,
    HubError,
    IllegalActionError,
    IncompleteTraceError,
    InvalidAnswerError,
    InvalidRequestError,
    InvalidRewardError,
    JournalError,
    MessageTooLargeError,
    MissingRewardError,
    ModelAnswerError,
    ModelUnavailableError,
    OpenEnvError,
    ParticipantFailedError,
    ProductionModeError,
    ProviderError,
    RateLimitedError,
    RemoteTracebackError,
    RequestError,
    RequestGivenUpError,
    RequestNotSentError,
    RequestRejectedError,
    ResetNeededError,
    ResponseTimeoutError,
    SandboxError,
    SandboxFileError,
    SandboxUnavailableError,
    ServerCapacityError,
    ServerEndedError,
    ServerError,
    ServerExecutionError,
    ServerFactoryError,
    ServerFailedError,
    ServerNotReadyError,
    ServerParticipantError,
    ServerProductionModeError,
    ServerRateLimitedError,
    ServerSessionError,
    ServerSessionLostError,
    ServerTimeoutError,
    ServerUnauthorizedError,
    SessionCapacityError,
    SessionCreationError,
    SessionLostError,
    SessionNotFoundError,
    SlotError,
    TaskNotFoundError,
    TasksUnsupportedError,
    ToolArgumentsError,
    ToolCallError,
    TooManyValuesError,
    UnauthorizedError,
    VerdictError,
)
from openenv.core.wire.legacy import encode_error

EXAMPLES: list[OpenEnvError] = [
    OpenEnvError("why"),
    ConfigurationError("why"),
    IncompleteTraceError("why"),
    ConcurrencyConfigurationError("CounterEnvironment", 4),
    RequestError("why", hint=1),
    InvalidRequestError("why", code="INVALID_JSON", errors=[{"loc": ["a"]}]),
    IllegalActionError("no such word"),
    TaskNotFoundError(),
    TasksUnsupportedError("list_splits"),
    MessageTooLargeError(20, 10),
    AnswerTooLargeError(20, 10),
    ResetNeededError("Expected a reset first."),
    EnvironmentFailedError("kaboom"),
    EnvironmentProcessEndedError("step", "exited with status 3", may_have_happened=True),
    ParticipantFailedError("user", "it wrote nothing"),
    ServerFailedError(),
    TooManyValuesError(10, 5),
    EnvironmentTimeoutError("step", 1.5),
    EnvironmentFactoryError("BadFactory"),
    SessionCapacityError(1, 1),
    ClientCapacityError(1, 1),
    DrainingError(1, 1),
    RateLimitedError(10, 0.5),
    SessionNotFoundError("zzz"),
    ProductionModeError("reset"),
    ForkError({"copy.deepcopy": "cannot pickle it"}),
    JournalError("The journal can't be written."),
    AcquiredElsewhereError(),
    SessionLostError("the journal has none of it"),
    UnauthorizedError("why"),
    SessionCreationError("it is taken"),
    ServerError("why", "NEW_CODE", {"hint": 1}),
    RequestRejectedError("why", "VALIDATION_ERROR", {"errors": [{"loc": ["a"]}]}),
    EpisodeOrderError("why", "SESSION_ERROR", {"reset_needed": True}),
    ServerProductionModeError("why", "SESSION_ERROR", {"mode": "production"}),
    ServerSessionError("why", "SESSION_ERROR"),
    ServerExecutionError("why", "EXECUTION_ERROR"),
    ServerParticipantError("why", "EXECUTION_ERROR", {"participant": "user"}),
    ServerTimeoutError("why", "TIMEOUT", {"may_have_happened": True}),
    ServerFactoryError("why", "FACTORY_ERROR"),
    ServerCapacityError("why", "CAPACITY_REACHED", {"active_sessions": 2, "max_sessions": 3}),
    ServerRateLimitedError("why", "RATE_LIMITED", {"retry_after_s": 0.5}),
    ServerSessionLostError("why", "SESSION_LOST"),
    ServerUnauthorizedError("why", "UNAUTHORIZED"),
    ConnectionFailedError("why"),
    InvalidAnswerError("why"),
    MissingRewardError(),
    InvalidRewardError(float("nan")),
    ModelAnswerError("why"),
    ModelUnavailableError("why", FailureKind.MODEL_FULL),
    ToolCallError("guess", "no such word", -32603, {"tried": 1}),
    ToolArgumentsError("guess", "KeyError: 'word'"),
    ConnectionLostError("why"),
    RequestNotSentError("lost before it was sent"),
    RequestGivenUpError(6, "The server closed the connection"),
    ResponseTimeoutError("why"),
    SlotError({2: ServerExecutionError("why", "EXECUTION_ERROR"), 5: ConnectionLostError("gone")}, 8),
    ClientModeError("why"),
    HandleUsedError("why"),
    RemoteTracebackError("where"),
    HubError("Could not look.", 503),
    GitServerError("why"),
    ProviderError("why", "its last words"),
    ServerNotReadyError("why", ""),
    ServerEndedError("It exited with status 3.", "its last words"),
    VerdictError("Expected JSON.", "hm"),
    SandboxError("why"),
    SandboxUnavailableError("why"),
    SandboxFileError("a/b", "it is a link"),
    EnvironmentNotFoundError("why"),
]


def classes() -> dict[str, type]:
    return {
        name: value
        for name, value in vars(exceptions).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }


def test_every_error_has_its_place_in_the_tree_on_top_of_the_module() -> None:
    assert exceptions.__doc__ is not None
    for name, kind in classes().items():
        assert name in exceptions.__doc__
        assert issubclass(kind, OpenEnvError)


def test_the_examples_leave_out_no_class() -> None:
    assert {type(error) for error in EXAMPLES} == set(classes().values())


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (ConfigurationError, ValueError),
        (ConcurrencyConfigurationError, ValueError),
        (IllegalActionError, ValueError),
        (ServerError, RuntimeError),
        (ServerTimeoutError, TimeoutError),
        (ConnectionFailedError, ConnectionError),
        (ConnectionLostError, ConnectionError),
        (ResponseTimeoutError, TimeoutError),
        (SlotError, RuntimeError),
        (ToolCallError, RuntimeError),
        (ToolArgumentsError, ValueError),
        (ClientModeError, RuntimeError),
        (HandleUsedError, RuntimeError),
        (ProviderError, RuntimeError),
        (ServerNotReadyError, TimeoutError),
        (ServerEndedError, ConnectionError),
        (SandboxError, RuntimeError),
        (EnvironmentNotFoundError, LookupError),
    ],
)
def test_what_the_public_package_s_users_catch_still_catches(kind: type, builtin: type) -> None:
    assert issubclass(kind, builtin)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_crosses_processes_whole(error: OpenEnvError, duplicate: Any) -> None:
    twin = duplicate(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert repr(vars(twin)) == repr(vars(error))  # an error within is equal to itself only


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SessionCapacityError(1, 1), "Server at capacity: 1/1 sessions active. Cannot accept new connections."),
        (EnvironmentFactoryError("BadFactory"), "Environment factory 'BadFactory' failed to create instance."),
        (SessionNotFoundError("zzz"), "Unknown session_id: zzz"),
        (EnvironmentTimeoutError("step", 0.5), "step did not finish within 0.5 s; it may still take effect."),
        (MessageTooLargeError(20, 10), "The message has 20 bytes; this server accepts 10."),
        (ToolCallError("guess", "no such word", -32603), "Tool 'guess' failed: no such word"),
        (ToolArgumentsError("guess", "no word"), "The arguments of 'guess' make no action: no word"),
        (ServerError("kaboom", "EXECUTION_ERROR"), "Server error: kaboom (code: EXECUTION_ERROR)"),
        (ProviderError("It ended.", "last\nwords\n"), "It ended. The end of its log:\nlast\nwords"),
        (ProviderError("It ended.", " "), "It ended. The end of its log:\n(it printed nothing)"),
        (ProviderError("No Docker."), "No Docker."),
        (
            SlotError({2: ConnectionLostError("gone"), 5: ConnectionLostError("away")}, 8),
            "2 of 8 slots failed: 2, 5. Slot 2: gone",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sentences(error: OpenEnvError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "received"),
    [
        (InvalidRequestError("why", code="INVALID_JSON"), RequestRejectedError),
        (InvalidRequestError("why", code="UNKNOWN_TYPE"), RequestRejectedError),
        (InvalidRequestError("why", errors=[{"loc": ["a"]}]), RequestRejectedError),
        (IllegalActionError("why"), RequestRejectedError),
        (MessageTooLargeError(20, 10), RequestRejectedError),
        (ResetNeededError("why"), EpisodeOrderError),
        (EnvironmentFailedError("why"), ServerExecutionError),
        (ParticipantFailedError("user", "it wrote nothing"), ServerParticipantError),
        (EnvironmentTimeoutError("step", 1), ServerTimeoutError),
        (EnvironmentFactoryError("F"), ServerFactoryError),
        (SessionCapacityError(2, 3), ServerCapacityError),
        (ClientCapacityError(2, 3), ServerCapacityError),
        (DrainingError(2, 3), ServerCapacityError),
        (RateLimitedError(10, 0.5), ServerRateLimitedError),
        (SessionLostError("why"), ServerSessionLostError),
        (UnauthorizedError("why"), ServerUnauthorizedError),
        (SessionNotFoundError("zzz"), ServerSessionError),
        (SessionCreationError("why"), ServerSessionError),
        (ProductionModeError("reset"), ServerProductionModeError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_over_the_wire_and_back(error: RequestError, received: type[ServerError]) -> None:
    frame = json.loads(encode_error(error))
    assert frame["type"] == "error"
    twin = ServerError.from_frame(frame["data"])
    assert type(twin) is received
    assert (twin.message, twin.code, twin.details) == (error.message, error.code, error.details)


def test_capacity_counts_arrive() -> None:
    error = ServerError.from_frame(json.loads(encode_error(SessionCapacityError(2, 3)))["data"])
    assert isinstance(error, ServerCapacityError)
    assert (error.active_sessions, error.max_sessions) == (2, 3)
    assert not error.of_client
    assert not error.draining


def test_whose_limit_it_is_arrives() -> None:
    own, ending = (
        ServerError.from_frame(json.loads(encode_error(error))["data"])
        for error in (ClientCapacityError(2, 3), DrainingError(4, 5))
    )
    assert isinstance(own, ServerCapacityError)
    assert isinstance(ending, ServerCapacityError)
    assert (own.active_sessions, own.max_sessions, own.of_client, own.draining) == (2, 3, True, False)
    assert (ending.active_sessions, ending.max_sessions, ending.of_client, ending.draining) == (4, 5, False, True)


def test_when_to_try_again_arrives() -> None:
    error = ServerError.from_frame(json.loads(encode_error(RateLimitedError(10, 0.5)))["data"])
    assert isinstance(error, ServerRateLimitedError)
    assert error.retry_after_s == 0.5
    assert ServerRateLimitedError("a foreign server's", "RATE_LIMITED").retry_after_s == 0


def test_validation_entries_arrive() -> None:
    assert ServerError.from_frame({"message": "m", "code": "VALIDATION_ERROR", "errors": [{"x": 1}]}).errors == [
        {"x": 1}
    ]
    assert ServerError.from_frame({"message": "m", "code": "VALIDATION_ERROR"}).errors == []


def test_the_text_says_what_is_wrong_with_each_field_and_what_came() -> None:
    errors = [
        {"loc": ["words", 0], "msg": "Field required", "input": {"a": 1}},
        {"loc": ["size"], "msg": "Input should be a valid integer", "input": "four"},
        {"loc": "x"},
        "y",
    ]
    error = ServerError.from_frame({"message": "m", "code": "VALIDATION_ERROR", "errors": errors})
    assert str(error) == (
        "Server error: m (code: VALIDATION_ERROR): words.0: Field required; "
        "size: Input should be a valid integer, got 'four'"
    )


def test_what_the_message_says_is_not_said_twice() -> None:
    errors = [{"loc": [], "msg": "not in the word list", "type": "illegal_action"}]
    error = ServerError.from_frame({"message": "not in the word list", "code": "VALIDATION_ERROR", "errors": errors})
    assert str(error) == "Server error: not in the word list (code: VALIDATION_ERROR)"


def test_an_unknown_code_is_a_plain_server_error() -> None:
    error = ServerError.from_frame({"message": "later", "code": "TRY_LATER", "wait_s": 3})
    assert type(error) is ServerError
    assert (error.message, error.code, error.details) == ("later", "TRY_LATER", {"wait_s": 3})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["message", "code", "errors", "reset_needed", "active_sessions"]), JSON))
def test_whatever_a_server_sends_as_an_error_becomes_a_server_error(data: dict[str, Any]) -> None:
    error = ServerError.from_frame(data)
    assert str(error).startswith("Server error: ")
    assert isinstance(error.errors, list)
    if isinstance(error, ServerCapacityError):
        assert isinstance(error.active_sessions, int)


@given(st.text(), st.dictionaries(st.text(min_size=1), JSON))
def test_a_request_error_keeps_its_details(message: str, details: dict[str, Any]) -> None:
    details.pop("message", None)
    details.pop("self", None)
    error = RequestError(message, **details)
    assert (error.message, error.details) == (message, details)


def test_with_debug_an_error_shows_its_details(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = {"message": "KeyError: 'a'", "code": "EXECUTION_ERROR", "may_have_happened": True, "traceback": "line 3"}
    assert not hasattr(ServerError.from_frame(frame), "__notes__")
    monkeypatch.setenv("OPENENV_DEBUG", "1")
    assert ServerError.from_frame(frame).__notes__ == ["may_have_happened: True", "traceback:\nline 3"]


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_has_an_error_in_the_client(code: ErrorCode) -> None:
    error = ServerError.from_frame({"message": "why", "code": str(code)})

    assert type(error) is not ServerError
    assert error.code == code


def test_every_error_of_the_server_has_a_known_code() -> None:
    codes = {error.code for error in EXAMPLES if isinstance(error, RequestError)}

    assert codes <= set(ErrorCode)
