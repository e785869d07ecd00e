"""Start a sandbox with bubblewrap: namespaces of its own for everything, filters of system calls, no capabilities."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from openenv.core.sandbox import cgroup, filesystem, seccomp
from openenv.core.sandbox.limits import SandboxLimits
from openenv.core.sandbox.started import StartedSandbox

USER = 1000
"""The user inside."""

# Where the server runs as root, each sandbox is a user of its own outside, who owns nothing: what the kernel counts by
# user is then counted for it alone. No account has so high a number.
_FIRST_USER_OUTSIDE = 1_900_000_000
_MOST_PROCESSES = 2**22  # of Linux

_FILES = {
    "/etc/passwd": f"sandbox:x:{USER}:{USER}:sandbox:{filesystem.WORK}:/bin/sh\n",
    "/etc/group": f"sandbox:x:{USER}:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n",
}
_ISOLATION = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"),
    *("--hostname", "sandbox", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"),
)
_BOOT = f"import sys; sys.path.insert(0, {filesystem.INIT!r}); from guest.init import main; main()"


def is_installed() -> bool:
    """Return whether this machine has bubblewrap."""
    return sys.platform.startswith("linux") and shutil.which("bwrap") is not None


def inner_user() -> int | None:
    """Return the user that the first process has to become; ``None`` where it is no other from the start."""
    return USER if os.geteuid() == 0 and _has_all_users() else None


@cache
def _has_all_users() -> bool:
    """Whether this root is the machine's, and not one of a container without privileges, who has but some users."""
    last = _FIRST_USER_OUTSIDE + _MOST_PROCESSES
    return all(_is_mapped(last, Path(f"/proc/self/{kind}_map").read_text("ascii")) for kind in ("uid", "gid"))


def _is_mapped(user: int, ranges: str) -> bool:
    lines = [list(map(int, line.split())) for line in ranges.splitlines()]
    return any(first <= user < first + count for first, _, count in lines)


def start(limits: SandboxLimits, packages: Sequence[str], control: socket.socket, said: BinaryIO) -> StartedSandbox:
    """Start a sandbox. Its first process waits for its settings, and ends when the other end of its socket is closed.

    Args:
        limits: How large its disks are.
        packages: Names of the packages that it has.
        control: The socket of its first process.
        said: Where bubblewrap writes what is wrong.

    Returns:
        The sandbox. Where bubblewrap could not make it, its process ends, and ``said`` holds why.

    Raises:
        ConfigurationError: A package is not installed, or no control group can be made where a group was requested.
        SandboxUnavailableError: libseccomp is not installed.
    """
    with ExitStack() as ours, ExitStack() as theirs:
        information, write_information = _pipe(ours, theirs)
        wait, go = _pipe(theirs, ours)
        memory_files = _MemoryFiles(theirs)
        arguments = [
            *("bwrap", *_ISOLATION, *_variables(packages)),
            *memory_files.mounted(_FILES),
            *filesystem.mounts(limits, packages),
            *memory_files.filters(seccomp.filters()),
            *("--info-fd", str(write_information), *_user(wait)),
            *("--", filesystem.python_program(), "-s", "-S", "-P", "-B", "-c", _BOOT),
        ]
        process = subprocess.Popen(  # noqa: S603  # a program of ours
            arguments,
            executable=shutil.which("bwrap"),
            stdin=control.fileno(),
            stdout=said,
            stderr=said,
            env={},  # the server's variables may be secrets
            start_new_session=True,  # Ctrl-C is for the server alone
            # The reader too: of a pipe without one it would die, and leave the process inside waiting for ever.
            pass_fds=[information, write_information, wait, *memory_files.numbers],
        )
        theirs.close()
        child = _first_process(information)
        group = None
        try:
            if child is not None:
                group = cgroup.confine(child, limits)
                _prepare(child)
                os.write(go, b"1")
                return StartedSandbox(process, os.pidfd_open(child), group)
        except (ProcessLookupError, FileNotFoundError, BrokenPipeError):
            pass  # it has ended by itself, and has said why
        except BaseException:
            _end(process, child)
            raise
        return StartedSandbox(process, None, group)


def _end(process: "subprocess.Popen[bytes]", child: int | None) -> None:
    """End what has not begun: without the process outside, the one inside would wait for ever."""
    if child is not None:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    process.kill()
    process.wait()


def _first_process(information: int) -> int | None:
    """Read which the first process inside is; ``None`` where there is none."""
    with os.fdopen(information, "rb", closefd=False) as lines:
        written = lines.read()
    return int(json.loads(written)["child-pid"]) if written else None


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer


def _user(wait: int) -> list[str]:
    """Say who it runs as, and what it waits for before it begins.

    From root, user 0 inside mounts what perhaps only root may read, and the first process then becomes another user.
    Which users these are outside, only root may say, and only once the namespace is there.
    """
    if inner_user() is None:
        return ["--uid", str(USER), "--gid", str(USER), "--block-fd", str(wait)]
    capabilities = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return ["--uid", "0", "--gid", "0", *capabilities, "--userns-block-fd", str(wait)]


def _prepare(child: int) -> None:
    """Do to the first process, before it begins, what can't be done from inside."""
    # Not 0, with which the kernel would still start what core_pattern names, outside, with all of the crashed memory.
    resource.prlimit(child, resource.RLIMIT_CORE, (1, 1))
    if inner_user() is not None:
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{kind}").write_text(f"0 0 1\n{USER} {_FIRST_USER_OUTSIDE + child} 1\n", "ascii")


def _variables(packages: Sequence[str]) -> list[str]:
    values = {
        "HOME": filesystem.WORK,
        "LANG": "C.UTF-8",
        "PATH": filesystem.search_path(),
        # The same code is to do the same every time, the order of sets included.
        "PYTHONHASHSEED": "0",
        "TMPDIR": "/tmp",  # noqa: S108  # the sandbox's own
        "USER": "sandbox",
    }
    if packages:
        values["PYTHONPATH"] = filesystem.PACKAGES
    return [word for name, value in values.items() for word in ("--setenv", name, value)]


class _MemoryFiles:
    """Files that are handed over without a place on the disk.

    Args:
        owner: What closes them here.
    """

    def __init__(self, owner: ExitStack) -> None:
        self._owner = owner
        self.numbers: list[int] = []

    def mounted(self, files: Mapping[str, str]) -> list[str]:
        """Return the arguments that put texts at paths."""
        return [
            word
            for path, text in files.items()
            for word in ("--perms", "0644", "--file", str(self._made(text.encode())), path)
        ]

    def filters(self, programs: Iterable[bytes]) -> list[str]:
        """Return the arguments that load filters of system calls."""
        return [word for program in programs for word in ("--add-seccomp-fd", str(self._made(program)))]

    def _made(self, data: bytes) -> int:
        file = os.memfd_create("sandbox")
        self._owner.callback(os.close, file)
        self.numbers.append(file)
        os.write(file, data)
        os.lseek(file, 0, os.SEEK_SET)
        return file
