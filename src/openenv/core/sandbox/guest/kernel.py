"""The few calls to the kernel that Python has no name for."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_CAPABILITIES_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def hide_memory(hidden: bool) -> None:
    """Say whether processes of the same user are kept from this one's memory, files and environment under ``/proc``."""
    _prctl(_PR_SET_DUMPABLE, 0 if hidden else 1)


def die_with_parent() -> None:
    """Have the kernel end this process when its parent ends. A change of user undoes it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Have no program that this process starts gain rights, as by set-user-ID."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every capability, those too that only a program could get back."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    _require(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def _prctl(option: int, value: int) -> None:
    _require(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _require(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
