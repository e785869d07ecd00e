"""Confinement of a process that runs the code of agents, by Linux's Landlock.

A confined process, and all that it starts, can neither read the memory and the environment variables of the processes
outside nor trace them, has no capabilities of root, and gains none by a program with set-user-ID; from Linux 6.12 on it
can't signal them either. It keeps the user's files and the network, the sockets of services among them, may read the
arguments of all processes, and may lower the limits of the user's own ones, which ends them, too: this is no sandbox.
"""

import ctypes
import os
import sys
from functools import cache

from openenv.core.sandbox.guest.kernel import drop_capabilities, forbid_new_privileges

MISSING = "Linux's Landlock (5.13 or newer, and not switched off)"
"""What a machine lacks where processes can't be confined."""

# Numbers of system calls, the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1  # flag of _CREATE_RULESET: return the version of Landlock's interface
_PATH_BENEATH = 1

_MAKE_BLOCK = 1 << 11  # a domain has to restrict some access to files: this one no program without capabilities has
_REFER = 1 << 13  # renaming between folders, which every domain restricts
_REFER_SINCE = 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_SCOPES_SINCE = 6

_is_confined = False


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def can_confine() -> bool:
    """Return whether processes can be confined on this machine."""
    return _landlock_version() > 0


def is_confined() -> bool:
    """Return whether ``confine`` was called in this process, or in the one that it was forked from."""
    return _is_confined


def confine() -> None:
    """Confine this process, which must have one thread. There is no way back.

    Raises:
        OSError: The machine can't confine processes; see ``can_confine``.
    """
    global _is_confined  # noqa: PLW0603  # a property of the process
    forbid_new_privileges()
    _enter_domain(_libc())
    drop_capabilities()
    _is_confined = True


def _enter_domain(libc: ctypes.CDLL) -> None:
    """Enter a Landlock domain of this process's own."""
    version = _landlock_version()
    renames = _REFER if version >= _REFER_SINCE else 0
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if version >= _SCOPES_SINCE else 0
    ruleset = _Ruleset(_MAKE_BLOCK | renames, 0, scopes)
    size = ctypes.sizeof(_Ruleset) if scopes else _Ruleset.scoped.offset if version >= 4 else 8
    rules = _check(libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0))
    try:
        if renames:
            _allow_everywhere(libc, rules, renames)
        _check(libc.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)


def _allow_everywhere(libc: ctypes.CDLL, rules: int, access: int) -> None:
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(access, root)
        _check(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(root)


@cache
def _landlock_version() -> int:
    """Return the version of Landlock's interface; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"This process can't be confined: {os.strerror(number)}. It needs {MISSING}.")
    return result
