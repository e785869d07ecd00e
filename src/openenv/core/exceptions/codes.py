"""Codes of errors, in error messages, answers over HTTP and metrics."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Code of the error of a request.

    Attributes:
        http_status: Status of an HTTP answer with the code.
    """

    http_status: int

    def __new__(cls, code: str, http_status: int = 500) -> "ErrorCode":
        """Make a code with its HTTP status."""
        made = str.__new__(cls, code)
        made._value_ = code
        made.http_status = http_status
        return made

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR", 422
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED", 503
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"
    SESSION_LOST = "SESSION_LOST"
    UNAUTHORIZED = "UNAUTHORIZED"
    TIMEOUT = "TIMEOUT", 504
    TOO_LARGE = "TOO_LARGE", 413
    RATE_LIMITED = "RATE_LIMITED", 429
