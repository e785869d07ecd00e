"""Names of failures in error frames, where the code of an environment's error says only that it raised."""

import errno
import subprocess

from openenv.core.exceptions import FailureKind, ModelAnswerError, SandboxError, VerdictError

__all__ = ["failure_details"]

_BY_CLASS = {
    VerdictError: FailureKind.JUDGE,
    ModelAnswerError: FailureKind.JUDGE,  # in an environment, the model is a judge's
    SandboxError: FailureKind.SANDBOX,
    TimeoutError: FailureKind.TIMEOUT,
    subprocess.TimeoutExpired: FailureKind.TIMEOUT,
    subprocess.SubprocessError: FailureKind.PROGRAM,
    MemoryError: FailureKind.MEMORY,
}
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Causes that are looked at; an environment may chain an exception to itself.
_LONGEST_CHAIN = 8


def failure_details(raised: BaseException | None) -> dict[str, str]:
    """Return the field ``failure`` of the frame for an environment's exception, by it or by what it was raised from.

    Example:
        >>> failure_details(MemoryError()), failure_details(KeyError("word"))
        ({'failure': 'memory'}, {})
    """
    for _ in range(_LONGEST_CHAIN):
        if raised is None:
            break
        if isinstance(raised, OSError) and raised.errno in _NO_SPACE:
            return {"failure": FailureKind.DISK_FULL.value}
        kind = next((kind for error_class, kind in _BY_CLASS.items() if isinstance(raised, error_class)), None)
        if kind is not None:
            return {"failure": kind.value}
        raised = raised.__cause__
    return {}
