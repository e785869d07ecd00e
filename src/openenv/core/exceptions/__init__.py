"""Every error that OpenEnv raises, in one tree.

::

    OpenEnvError
    ├── ConfigurationError (ValueError)         settings that contradict each other
    │   └── ConcurrencyConfigurationError       many sessions for a class that allows one
    ├── RequestError                            raised on the server, sent as an error frame
    │   ├── InvalidRequestError                 INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR: nothing happened
    │   │   ├── IllegalActionError (ValueError) VALIDATION_ERROR: raised by an environment that refuses an action
    │   │   └── TaskNotFoundError (IndexError)   VALIDATION_ERROR: raised by an environment that has no such task
    │   ├── TasksUnsupportedError               EXECUTION_ERROR: the environment does not say this of its tasks
    │   ├── MessageTooLargeError                TOO_LARGE: nothing happened
    │   ├── TooManyValuesError                  TOO_LARGE: nothing happened
    │   ├── AnswerTooLargeError                 TOO_LARGE: it happened, but its answer is more than the client takes
    │   ├── ResetNeededError                    SESSION_ERROR: a step before reset, or after the end of the episode
    │   ├── EnvironmentFailedError              EXECUTION_ERROR: the environment raised, or returned what cannot be sent
    │   │   ├── EnvironmentProcessEndedError    EXECUTION_ERROR: the process that it ran in has ended
    │   │   └── ServerFailedError               EXECUTION_ERROR: an error of the server's own, of which its log knows
    │   ├── EnvironmentTimeoutError             TIMEOUT: it took longer than it was given
    │   ├── EnvironmentFactoryError             FACTORY_ERROR: no instance could be made
    │   ├── SessionCapacityError                CAPACITY_REACHED: every session is taken
    │   │   ├── ClientCapacityError             CAPACITY_REACHED: those that this client may have are
    │   │   └── DrainingError                   CAPACITY_REACHED: the server ends, and opens none any more
    │   ├── RateLimitedError                    RATE_LIMITED: more messages than a client may send; nothing happened
    │   ├── SessionNotFoundError                SESSION_ERROR: no such session (any more)
    │   ├── ProductionModeError                 SESSION_ERROR: the server serves agents only; nothing happened
    │   ├── ForkError                           EXECUTION_ERROR: a session can't be forked, and why
    │   ├── JournalError                        EXECUTION_ERROR: the journal can't be read or written
    │   │   └── TakenElsewhereError             EXECUTION_ERROR: another server took a session up at the same moment
    │   ├── SessionLostError                    SESSION_LOST: it can't be taken up again, and why
    │   ├── UnauthorizedError                   UNAUTHORIZED: the token is missing, or is another one
    │   └── SessionCreationError                SESSION_ERROR: a session could not be opened
    ├── ServerError (RuntimeError)              raised in the client for an error frame; one subclass per kind
    │   ├── RequestRejectedError                INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR, TOO_LARGE
    │   ├── EpisodeOrderError                   SESSION_ERROR that a reset mends
    │   ├── ServerProductionModeError           SESSION_ERROR: the server serves agents only
    │   ├── ServerSessionError                  SESSION_ERROR
    │   ├── ServerExecutionError                EXECUTION_ERROR
    │   ├── ServerTimeoutError (TimeoutError)   TIMEOUT
    │   ├── ServerFactoryError                  FACTORY_ERROR
    │   ├── ServerSessionLostError              SESSION_LOST
    │   ├── ServerUnauthorizedError             UNAUTHORIZED
    │   ├── ServerRateLimitedError              RATE_LIMITED
    │   └── ServerCapacityError                 CAPACITY_REACHED
    ├── InvalidAnswerError (RuntimeError)       the server sent something that is no answer
    ├── ToolCallError (RuntimeError)            raised in the client: a tool gave no result
    ├── ConnectionFailedError (ConnectionError) no connection could be made
    ├── ConnectionLostError (ConnectionError)   the connection went while an answer was awaited
    │   ├── ServerEndedError                    since the process of a server that was started for the client has ended
    │   ├── RequestNotSentError                 before it was asked for: nothing happened
    │   └── RequestGivenUpError                 again and again, whenever this request was sent
    ├── ResponseTimeoutError (TimeoutError)     no answer within the client's message timeout
    ├── RemoteTracebackError                    stands for what was raised in another process
    ├── SlotError (RuntimeError)                some sessions of a vector failed, where one error stands for all
    ├── ClientModeError (RuntimeError)          one client used from blocking and from async code at once
    ├── HandleUsedError (RuntimeError)          a handle that has given its client, asked for it again
    ├── ProviderError (RuntimeError)            a server could not be started, or died
    │   └── ServerNotReadyError (TimeoutError)  it was not ready in time
    ├── HubError (RuntimeError)                 the Hugging Face Hub refused, or could not be reached
    ├── SandboxError (RuntimeError)             a sandbox can't do what was asked
    │   ├── SandboxUnavailableError             there is none on this machine
    │   └── SandboxFileError                    a file in it can't be read or written
    └── EnvironmentNotFoundError (LookupError)  no environment of that name

A ``RequestError`` knows its code on the wire and the fields that go with it; ``ServerError.from_frame``
is the way back. Both families carry data in attributes and make the sentence from it. The classes are in ``server.py``,
``client.py`` and, where either side raises them, ``base.py``; import them from here.
"""

from openenv.core.exceptions.base import (
    ConcurrencyConfigurationError,
    ConfigurationError,
    EnvironmentNotFoundError,
    HubError,
    OpenEnvError,
    ProviderError,
    RemoteTracebackError,
    SandboxError,
    SandboxFileError,
    SandboxUnavailableError,
    ServerNotReadyError,
)
from openenv.core.exceptions.client import (
    ClientModeError,
    ConnectionFailedError,
    ConnectionLostError,
    EpisodeOrderError,
    HandleUsedError,
    InvalidAnswerError,
    RequestGivenUpError,
    RequestNotSentError,
    RequestRejectedError,
    ResponseTimeoutError,
    ServerCapacityError,
    ServerEndedError,
    ServerError,
    ServerExecutionError,
    ServerFactoryError,
    ServerProductionModeError,
    ServerRateLimitedError,
    ServerSessionError,
    ServerSessionLostError,
    ServerTimeoutError,
    ServerUnauthorizedError,
    SlotError,
    ToolCallError,
)
from openenv.core.exceptions.server import (
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
    ProductionModeError,
    RateLimitedError,
    RequestError,
    ResetNeededError,
    ServerFailedError,
    SessionCapacityError,
    SessionCreationError,
    SessionLostError,
    SessionNotFoundError,
    TakenElsewhereError,
    TaskNotFoundError,
    TasksUnsupportedError,
    TooManyValuesError,
    UnauthorizedError,
)

__all__ = [
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
    "ForkError",
    "HandleUsedError",
    "HubError",
    "IllegalActionError",
    "InvalidAnswerError",
    "InvalidRequestError",
    "JournalError",
    "MessageTooLargeError",
    "OpenEnvError",
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
    "TakenElsewhereError",
    "TaskNotFoundError",
    "TasksUnsupportedError",
    "TooManyValuesError",
    "ToolCallError",
    "UnauthorizedError",
]
