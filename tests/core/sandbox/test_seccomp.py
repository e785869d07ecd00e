"""The filters themselves; what they refuse is tried in ``test_escapes.py``."""

import ctypes
from typing import Any

import pytest

from openenv.core.exceptions import SandboxUnavailableError
from openenv.core.sandbox import seccomp
from openenv.core.sandbox.syscalls import ALLOWED

FORBIDDEN = {
    "bpf",
    "chroot",
    "clone",
    "clone3",
    "fsopen",
    "init_module",
    "io_uring_setup",
    "ioctl",
    "keyctl",
    "memfd_create",
    "mount",
    "move_mount",
    "open_by_handle_at",
    "perf_event_open",
    "personality",
    "pidfd_getfd",
    "pivot_root",
    "prlimit64",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "reboot",
    "setns",
    "shmget",
    "socket",
    "swapon",
    "umount2",
    "unshare",
    "userfaultfd",
}


def test_none_is_allowed_with_any_arguments_that_must_not_be() -> None:
    assert not FORBIDDEN & set(ALLOWED)
    assert len(set(ALLOWED)) == len(ALLOWED)


def test_the_filters_are_programs_of_the_kernel() -> None:
    for program in seccomp.filters():
        assert program
        assert len(program) % 8 == 0  # bytes of an instruction


def test_every_name_is_one_that_libseccomp_knows() -> None:
    library = ctypes.CDLL("libseccomp.so.2")
    newer = {"fchmodat2", "futex_requeue", "futex_wait", "futex_wake", "mseal"}
    unknown = {name for name in ALLOWED if library.seccomp_syscall_resolve_name(name.encode()) == -1}
    assert unknown <= newer


def test_without_libseccomp_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    seccomp.filters.cache_clear()
    with pytest.raises(SandboxUnavailableError, match="apt-get install libseccomp2"):
        seccomp.filters()
