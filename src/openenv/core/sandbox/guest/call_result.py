"""What a call in the sandbox gave, as it travels to the server."""

import os
from typing import NamedTuple

from .frames import pack

TIMEOUT_EXIT_CODE = 124
KILLED_EXIT_CODE = 137


class CallResult(NamedTuple):
    """What a call gave.

    Attributes:
        stdout: As much of it as is kept.
        stderr: The same.
        exit_code: As a shell has it.
        truncated: Whether one of them was longer.
        stopped: The limit that ended it, or ``ended``, ``threads`` or ``broken`` where the interpreter is gone for
            another reason; empty where nothing happened.
        interpreter_lost: Whether the interpreter is a new one.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int
    truncated: bool
    stopped: str
    interpreter_lost: bool

    def pack(self) -> bytes:
        """Write it as a frame."""
        head = {**self._asdict(), "stdout": len(self.stdout), "stderr": len(self.stderr)}
        return pack(head, self.stdout + self.stderr)


def exit_code_of(pid: int) -> int | None:
    """Take leave of a child, if it has ended.

    Args:
        pid: Its id.

    Returns:
        Its exit code, 128 and the signal's number where one has killed it; ``None`` while it runs.
    """
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def exit_code_at(limit: str) -> int:
    """Return the exit code of what was ended at a limit."""
    return TIMEOUT_EXIT_CODE if limit == "wall" else KILLED_EXIT_CODE
