"""The filter of system calls, made by libseccomp: a program that the kernel runs before each call.

libseccomp is used through ctypes. It comes with Debian's own package manager, so it is there; its bindings in the
package index are not kept up, and five functions are all that is needed.
"""

import ctypes
import errno
import os
import resource
import socket
from functools import cache
from typing import NamedTuple

from openenv.core.exceptions import SandboxUnavailableError
from openenv.core.sandbox.syscalls import ALLOWED

_ALLOW = 0x7FFF0000
_ANSWER = 0x00050000
_MASKED_EQUAL = 7
_LOW_32_BITS = 0xFFFFFFFF
_UNKNOWN_CALL = -1  # libseccomp's __NR_SCMP_ERROR

_NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
_PERSONALITIES = (0x0, 0x8, _LOW_32_BITS)
_TYPE_FOR_OTHERS = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX
# Not AF_NETLINK, AF_PACKET, AF_ALG nor AF_VSOCK: the last one even leads out of a virtual machine.
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


class _Rule(NamedTuple):
    """Calls that are treated in another way than the rest.

    Attributes:
        call: Name of the call.
        argument: Number of the argument that decides; ``None`` for any call.
        mask: The argument's bits that count. The kernel itself often looks at 32 of the 64.
        value: What they must be.
    """

    call: str
    argument: int | None = None
    mask: int = _LOW_32_BITS
    value: int = 0


@cache
def filters() -> tuple[bytes, bytes]:
    """Make the filters of this machine's architecture: a call is made if both let it pass.

    Returns:
        The programs, as bubblewrap takes them.

    Raises:
        SandboxUnavailableError: libseccomp is not installed.
    """
    allowed = [
        *map(_Rule, ALLOWED),
        _Rule("clone", _clone_flags_argument(), _NAMESPACES, 0),
        _Rule("ioctl"),
        _Rule("prlimit64", 0, _LOW_32_BITS, 0),  # of no other process than itself
        *(_Rule("personality", 0, _LOW_32_BITS, kind) for kind in _PERSONALITIES),
        *(_Rule("socket", 0, _LOW_32_BITS, family) for family in _FAMILIES),
    ]
    refused = [
        *(_Rule("ioctl", 1, _LOW_32_BITS, request) for request in _TYPE_FOR_OTHERS),
        # What is set there keeps a crash from starting a program outside.
        _Rule("prlimit64", 1, _LOW_32_BITS, resource.RLIMIT_CORE),
        _Rule("setrlimit", 0, _LOW_32_BITS, resource.RLIMIT_CORE),
    ]
    library = _library()
    return (
        _program(library, _ANSWER | errno.ENOSYS, _ALLOW, allowed),
        _program(library, _ALLOW, _ANSWER | errno.EPERM, refused),
    )


def _clone_flags_argument() -> int:
    return 1 if os.uname().machine.startswith("s390") else 0


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        raise SandboxUnavailableError(
            f"The sandbox needs libseccomp, which can't be loaded ({error}); install it: apt-get install libseccomp2."
        ) from error
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(_Comparison),
    ]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library


def _program(library: ctypes.CDLL, otherwise: int, action: int, rules: list[_Rule]) -> bytes:
    context = library.seccomp_init(otherwise)
    try:
        for rule in rules:
            _add(library, context, action, rule)
        return _exported(library, context)
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: int, action: int, rule: _Rule) -> None:
    number = library.seccomp_syscall_resolve_name(rule.call.encode())
    if number == _UNKNOWN_CALL:  # newer than this libseccomp, which so refuses it
        return
    comparisons = (_Comparison * 1)()
    count = 0
    if rule.argument is not None:
        comparisons[0] = _Comparison(rule.argument, _MASKED_EQUAL, rule.mask, rule.value)
        count = 1
    status = library.seccomp_rule_add_array(context, action, number, count, comparisons)
    if status != 0:
        raise SandboxUnavailableError(f"libseccomp refuses the rule for {rule.call}: {os.strerror(-status)}.")


def _exported(library: ctypes.CDLL, context: int) -> bytes:
    file = os.memfd_create("seccomp")
    with os.fdopen(file, "rb") as program:
        status = library.seccomp_export_bpf(context, file)
        if status != 0:
            raise SandboxUnavailableError(f"libseccomp can't write the filter: {os.strerror(-status)}.")
        program.seek(0)
        return program.read()
