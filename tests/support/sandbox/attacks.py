"""What the attempts to get out of a sandbox have in common."""

from openenv.core.sandbox import Sandbox

_TRIED = """
def tried(name, action):
    try:
        print(f"{name}: {action()}")
    except Exception as error:
        print(f"{name}: {type(error).__name__}")
"""

_NUMBERS = {
    "ptrace": 101,
    "process_vm_readv": 310,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "clone": 56,
    "clone3": 435,
    "keyctl": 250,
    "add_key": 248,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "memfd_create": 319,
    "shmget": 29,
    "open_by_handle_at": 304,
    "kexec_load": 246,
    "init_module": 175,
    "reboot": 169,
    "pidfd_getfd": 438,
    "prlimit64": 302,
    "personality": 135,
    "ioctl": 16,
}

SYSCALL = f"""
import ctypes, errno, os
NUMBERS = {_NUMBERS!r}  # of x86-64
def syscall(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.syscall(NUMBERS[name], *arguments)
    return errno.errorcode[ctypes.get_errno()] if answer == -1 else answer
"""
"""Defines ``syscall``, which calls the kernel by the call's name."""


def attempt(sandbox: Sandbox, code: str) -> list[str]:
    """Run code in which ``tried(name, action)`` prints ``name: outcome``. Returns the lines."""
    execution = sandbox.python(_TRIED + code)
    assert execution.stderr == "", execution
    return execution.stdout.splitlines()
