"""Kinds of failures by which an episode has no reward: one name for each, on the wire, in files and on pages."""

from enum import StrEnum


class FailureKind(StrEnum):
    """Kind of the failure of an episode, which then is no evidence about its player, and no reward of 0.

    Attributes:
        text: What failed, in words.

    Example:
        >>> FailureKind.JUDGE, FailureKind.JUDGE.text
        (<FailureKind.JUDGE: 'judge'>, 'the judge gave no verdict that can be read')
    """

    text: str

    def __new__(cls, name: str, text: str = "") -> "FailureKind":
        """Make a kind with its text."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.text = text
        return made

    # Of the environment. What a server can't see in an error frame's code, it names in the field ``failure``.
    ENVIRONMENT = "environment", "the environment raised an error"
    RESET = "reset", "the reset raised an error"
    TASK_REFUSED = "task_refused", "the environment refused the task"
    NOT_MADE = "not_made", "the environment could not be made"
    PROCESS_ENDED = "process_ended", "the environment's process ended"
    NO_REWARD = "no_reward", "the episode ended without a reward"
    INVALID_REWARD = "invalid_reward", "the reward was no finite number"
    RUBRIC = "rubric", "a component of the reward raised an error"
    JUDGE = "judge", "the judge gave no verdict that can be read"
    PARTICIPANT = "participant", "a user or an opponent in the environment failed"
    PROGRAM = "program", "a program of the environment failed or was killed"
    SANDBOX = "sandbox", "the sandbox failed"
    DISK_FULL = "disk_full", "the environment's disk is full"
    MEMORY = "memory", "the environment has no memory left"

    # Of the server, and of the way to it.
    TIMEOUT = "timeout", "no answer came in time"
    CONNECTION = "connection", "the connection was lost"
    SESSION = "session", "the session was lost"
    SERVER_FULL = "server_full", "the server has no session left"
    RATE_LIMITED = "rate_limited", "the server limits the rate of messages"
    INVALID_ANSWER = "invalid_answer", "the server's answer can't be read"
    SERVER = "server", "the server answered with another error"

    # Of a model's server.
    MODEL_ANSWER = "model_answer", "the model's server gave no answer that can be read"
    MODEL_FULL = "model_full", "the model's server is full (429)"
    MODEL_FAILED = "model_failed", "the model's server failed (5xx)"
    MODEL_TIMEOUT = "model_timeout", "the model's server gave no answer in time"
    MODEL_CUT = "model_cut", "the model's server broke its answers off"

    OTHER = "other", "an error of another kind"
