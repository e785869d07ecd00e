"""Errors of OpenEnv, in one tree.

::

    OpenEnvError
    ├── ConfigurationError (ValueError)         settings that contradict each other
    │   ├── ConcurrencyConfigurationError       many sessions for a class that allows one
    │   └── IncompleteTraceError                entries of an episode are not on record
    ├── RequestError                            raised on the server, sent as an error frame
    │   ├── InvalidRequestError                 INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR: nothing happened
    │   │   ├── IllegalActionError (ValueError) VALIDATION_ERROR: raised by an environment that rejects an action
    │   │   └── TaskNotFoundError (IndexError)   VALIDATION_ERROR: raised by an environment that has no such task
    │   ├── TasksUnsupportedError               EXECUTION_ERROR: the environment lacks a method for tasks
    │   ├── MessageTooLargeError                TOO_LARGE: nothing happened
    │   ├── TooManyValuesError                  TOO_LARGE: nothing happened
    │   ├── AnswerTooLargeError                 TOO_LARGE: it was executed, but its answer is above the client's limit
    │   ├── ResetNeededError                    SESSION_ERROR: a step before reset, or after the end of the episode
    │   ├── EnvironmentFailedError              EXECUTION_ERROR: the environment raised, or returned no JSON value
    │   │   ├── EnvironmentProcessEndedError    EXECUTION_ERROR: the environment's process has ended
    │   │   ├── ParticipantFailedError          EXECUTION_ERROR: the environment's user, or an opponent, gave no reply
    │   │   └── ServerFailedError               EXECUTION_ERROR: an internal error of the server, which is in its log
    │   ├── EnvironmentTimeoutError             TIMEOUT: the environment exceeded its time limit
    │   ├── EnvironmentFactoryError             FACTORY_ERROR: the environment could not be made
    │   ├── SessionCapacityError                CAPACITY_REACHED: every slot of the server is in use
    │   │   ├── ClientCapacityError             CAPACITY_REACHED: the client has reached its own limit of sessions
    │   │   └── DrainingError                   CAPACITY_REACHED: the server is draining
    │   ├── RateLimitedError                    RATE_LIMITED: too many messages of one client; nothing happened
    │   ├── SessionNotFoundError                SESSION_ERROR: no such session (any more)
    │   ├── ProductionModeError                 SESSION_ERROR: the server serves agents only; nothing happened
    │   ├── ForkError                           EXECUTION_ERROR: a session can't be forked, and why
    │   ├── JournalError                        EXECUTION_ERROR: the journal can't be read or written
    │   │   └── AcquiredElsewhereError             EXECUTION_ERROR: another server resumed a session at the same moment
    │   ├── SessionLostError                    SESSION_LOST: a session can't be resumed, and why
    │   ├── UnauthorizedError                   UNAUTHORIZED: the token is missing or wrong
    │   └── SessionCreationError                SESSION_ERROR: a session could not be opened
    ├── ServerError (RuntimeError)              raised in the client for an error frame; one subclass per kind
    │   ├── RequestRejectedError                INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR, TOO_LARGE
    │   ├── EpisodeOrderError                   SESSION_ERROR that a reset resolves
    │   ├── ServerProductionModeError           SESSION_ERROR: the server serves agents only
    │   ├── ServerSessionError                  SESSION_ERROR
    │   ├── ServerExecutionError                EXECUTION_ERROR
    │   │   └── ServerParticipantError          EXECUTION_ERROR: of a participant, as of the environment's user
    │   ├── ServerTimeoutError (TimeoutError)   TIMEOUT
    │   ├── ServerFactoryError                  FACTORY_ERROR
    │   ├── ServerSessionLostError              SESSION_LOST
    │   ├── ServerUnauthorizedError             UNAUTHORIZED
    │   ├── ServerRateLimitedError              RATE_LIMITED
    │   └── ServerCapacityError                 CAPACITY_REACHED
    ├── InvalidAnswerError (RuntimeError)       the server sent an invalid answer
    │   ├── MissingRewardError                  the result that ended an episode has no reward
    │   ├── InvalidRewardError                  a reward is no finite number
    │   └── ModelAnswerError                    the server of a language model did, each time
    │       └── ModelUnavailableError           it is full, fails, or does not answer, each time
    ├── ToolCallError (RuntimeError)            raised in the client: a tool gave no result
    ├── ToolArgumentsError (ValueError)         the arguments of a tool call make no action: nothing happened
    ├── ConnectionFailedError (ConnectionError) no connection could be made
    ├── ConnectionLostError (ConnectionError)   the connection was lost before an answer arrived
    │   ├── ServerEndedError                    because the server that was started for the client has ended
    │   ├── RequestNotSentError                 before the request was sent: nothing happened
    │   └── RequestGivenUpError                 each time that this request was sent
    ├── ResponseTimeoutError (TimeoutError)     no answer within the client's message timeout
    ├── RemoteTracebackError                    stands for an exception of another process
    ├── SlotError (RuntimeError)                some sessions of a vector failed: one error for all of them
    ├── ClientModeError (RuntimeError)          one client was used from blocking and from async code at once
    ├── HandleUsedError (RuntimeError)          a handle was resolved twice
    ├── ProviderError (RuntimeError)            a server could not be started, or died
    │   └── ServerNotReadyError (TimeoutError)  it was not ready in time
    ├── HubError (RuntimeError)                 the Hugging Face Hub rejected a request, or could not be reached
    ├── GitServerError (RuntimeError)           a Git server or a Git command failed
    ├── VerdictError (ValueError)               the verdict of a judge can't be read
    ├── SandboxError (RuntimeError)             a sandbox can't execute a request
    │   ├── SandboxUnavailableError             this machine has no sandbox
    │   └── SandboxFileError                    a file in the sandbox can't be read or written
    └── EnvironmentNotFoundError (LookupError)  no environment of that name

A ``RequestError`` has its ``ErrorCode`` and the fields of the code; ``ServerError.from_frame`` makes the client's error
from an error frame. Both families keep data in attributes and make the message from the data. The classes are in
``server.py``, ``client.py`` and, if both sides raise them, ``base.py``; import them from here.
"""

from openenv.core.exceptions.base import (
    ConcurrencyConfigurationError,
    ConfigurationError,
    EnvironmentNotFoundError,
    GitServerError,
    HubError,
    IncompleteTraceError,
    OpenEnvError,
    ProviderError,
    RemoteTracebackError,
    SandboxError,
    SandboxFileError,
    SandboxUnavailableError,
    ServerNotReadyError,
    VerdictError,
)
from openenv.core.exceptions.client import (
    ClientModeError,
    ConnectionFailedError,
    ConnectionLostError,
    EpisodeOrderError,
    HandleUsedError,
    InvalidAnswerError,
    InvalidRewardError,
    MissingRewardError,
    ModelAnswerError,
    ModelUnavailableError,
    RequestGivenUpError,
    RequestNotSentError,
    RequestRejectedError,
    ResponseTimeoutError,
    ServerCapacityError,
    ServerEndedError,
    ServerError,
    ServerExecutionError,
    ServerFactoryError,
    ServerParticipantError,
    ServerProductionModeError,
    ServerRateLimitedError,
    ServerSessionError,
    ServerSessionLostError,
    ServerTimeoutError,
    ServerUnauthorizedError,
    SlotError,
    ToolArgumentsError,
    ToolCallError,
)
from openenv.core.exceptions.codes import ErrorCode
from openenv.core.exceptions.failures import FailureKind
from openenv.core.exceptions.server import (
    AcquiredElsewhereError,
    AnswerTooLargeError,
    ClientCapacityError,
    DrainingError,
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentProcessEndedError,
    EnvironmentTimeoutError,
    ForkError,
    IllegalActionError,
    InvalidRequestError,
    JournalError,
    MessageTooLargeError,
    ParticipantFailedError,
    ProductionModeError,
    RateLimitedError,
    RequestError,
    ResetNeededError,
    ServerFailedError,
    SessionCapacityError,
    SessionCreationError,
    SessionLostError,
    SessionNotFoundError,
    TaskNotFoundError,
    TasksUnsupportedError,
    TooManyValuesError,
    UnauthorizedError,
)

__all__ = [
    "AcquiredElsewhereError",
    "AnswerTooLargeError",
    "ClientCapacityError",
    "ClientModeError",
    "ConcurrencyConfigurationError",
    "ConfigurationError",
    "ConnectionFailedError",
    "ConnectionLostError",
    "DrainingError",
    "EnvironmentFactoryError",
    "EnvironmentFailedError",
    "EnvironmentNotFoundError",
    "EnvironmentProcessEndedError",
    "EnvironmentTimeoutError",
    "EpisodeOrderError",
    "ErrorCode",
    "FailureKind",
    "ForkError",
    "GitServerError",
    "HandleUsedError",
    "HubError",
    "IllegalActionError",
    "IncompleteTraceError",
    "InvalidAnswerError",
    "InvalidRequestError",
    "InvalidRewardError",
    "JournalError",
    "MessageTooLargeError",
    "MissingRewardError",
    "ModelAnswerError",
    "ModelUnavailableError",
    "OpenEnvError",
    "ParticipantFailedError",
    "ProductionModeError",
    "ProviderError",
    "RateLimitedError",
    "RemoteTracebackError",
    "RequestError",
    "RequestGivenUpError",
    "RequestNotSentError",
    "RequestRejectedError",
    "ResetNeededError",
    "ResponseTimeoutError",
    "SandboxError",
    "SandboxFileError",
    "SandboxUnavailableError",
    "ServerCapacityError",
    "ServerEndedError",
    "ServerError",
    "ServerExecutionError",
    "ServerFactoryError",
    "ServerFailedError",
    "ServerNotReadyError",
    "ServerParticipantError",
    "ServerProductionModeError",
    "ServerRateLimitedError",
    "ServerSessionError",
    "ServerSessionLostError",
    "ServerTimeoutError",
    "ServerUnauthorizedError",
    "SessionCapacityError",
    "SessionCreationError",
    "SessionLostError",
    "SessionNotFoundError",
    "SlotError",
    "TaskNotFoundError",
    "TasksUnsupportedError",
    "TooManyValuesError",
    "ToolArgumentsError",
    "ToolCallError",
    "UnauthorizedError",
    "VerdictError",
]
