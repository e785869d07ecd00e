"""One running sandbox, from its start to its end."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from compileall import compile_dir
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

from openenv.core.exceptions import ConfigurationError, SandboxUnavailableError
from openenv.core.sandbox import bubblewrap, cgroup, filesystem, unconfined
from openenv.core.sandbox.guest.frames import Frame
from openenv.core.sandbox.guest.settings import Settings
from openenv.core.sandbox.limits import SandboxLimits
from openenv.core.sandbox.link import Link, LinkBrokenError
from openenv.core.sandbox.started import StartedSandbox

Kind = Literal["auto", "bubblewrap", "none"]
"""How code is kept in: ``auto`` is bubblewrap where the machine has it, and never ``none``."""

_KINDS = ("auto", "bubblewrap", "none")
_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 2.0
_MOST_SAID_BYTES = 500
_NO_SANDBOX = (
    "Code that a model wrote runs only in a sandbox, and there is none: bubblewrap (bwrap) is not installed. Get it "
    "with: apt-get install bubblewrap. A machine that is itself a sandbox can do without: sandbox='none'."
)


def require_sandbox(kind: str) -> None:
    """Check that code can be kept in on this machine.

    Args:
        kind: ``auto``, ``bubblewrap`` or ``none``.

    Raises:
        ConfigurationError: It is none of these.
        SandboxUnavailableError: It is not there, and how to get one.
    """
    if kind not in _KINDS:
        raise ConfigurationError(f"sandbox is {kind!r}; expected one of {', '.join(map(repr, _KINDS))}.")
    if kind != "none" and not bubblewrap.is_installed():
        raise SandboxUnavailableError(_NO_SANDBOX)


class SandboxProcess:
    """A running sandbox.

    Args:
        limits: What code in it may use.
        kind: How it is kept in.
        packages: Names of installed distributions that it may import.

    Raises:
        ConfigurationError: There is no such kind, or a package is not installed.
        SandboxUnavailableError: None can be had here, and why.
    """

    def __init__(self, limits: SandboxLimits, kind: str, packages: Sequence[str]) -> None:
        require_sandbox(kind)
        _compile_guest()
        self._folder = Path(tempfile.mkdtemp(prefix="openenv-sandbox-")) if kind == "none" else None
        ours, theirs = socket.socketpair()
        self._link = Link(ours)
        try:
            with tempfile.TemporaryFile() as said, theirs:
                self._started = self._start(limits, packages, theirs, said)
                theirs.close()
                self._greet(self._settings(limits), said)
        except BaseException:
            self._link.close()
            self._remove_folder()
            raise

    @property
    def alive(self) -> bool:
        """Whether it has not ended by itself."""
        return self._started.process.poll() is None

    def request(self, head: Mapping[str, Any], body: bytes, most_body_bytes: int, timeout_s: float) -> Frame:
        """Send a request, and wait for its answer.

        Args:
            head: The request.
            body: The bytes that go with it.
            most_body_bytes: A longer answer is none.
            timeout_s: Seconds to wait.

        Raises:
            LinkBrokenError: No answer came. The sandbox is of no use any more; close it.
        """
        self._link.send(head, body, timeout_s)
        return self._link.receive(most_body_bytes, timeout_s)

    def close(self) -> None:
        """End it, and all that runs in it; more than once does no harm."""
        self._link.close()
        self._end()

    def _start(
        self, limits: SandboxLimits, packages: Sequence[str], control: socket.socket, said: BinaryIO
    ) -> StartedSandbox:
        if self._folder is not None:
            return unconfined.start(self._folder, packages, control, said)
        return bubblewrap.start(limits, packages, control, said)

    def _settings(self, limits: SandboxLimits) -> Settings:
        return Settings(
            work=filesystem.WORK if self._folder is None else str(self._folder),
            user=bubblewrap.inner_user() if self._folder is None else None,
            confined=self._folder is None,
            cpu_s=limits.cpu_s,
            memory_bytes=limits.memory_bytes,
            output_bytes=limits.output_bytes,
            processes=limits.processes,
            disk_bytes=limits.disk_bytes,
            disk_files=limits.disk_files,
            open_files=limits.open_files,
        )

    def _greet(self, settings: Settings, said: BinaryIO) -> None:
        try:
            self.request(settings._asdict(), b"", 0, _START_TIMEOUT_S)
        except LinkBrokenError as error:
            self._end()
            said.seek(0)
            reason = said.read(_MOST_SAID_BYTES).decode(errors="replace").strip() or str(error)
            raise SandboxUnavailableError(
                f"bubblewrap can't make a sandbox on this machine: {reason}. In a container, its runtime must allow "
                "user namespaces and an own /proc (for Docker: --security-opt seccomp=unconfined --security-opt "
                "apparmor=unconfined --security-opt systempaths=unconfined); elsewhere see the sysctls "
                "kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns."
            ) from error

    def _end(self) -> None:
        process, first, group = self._started
        if first is not None:  # with it, the kernel ends all that runs inside
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(first, signal.SIGKILL)
            os.close(first)
            self._started = StartedSandbox(process)
        elif self._folder is not None:  # it has to end the others itself
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_TIMEOUT_S)
        process.kill()
        process.wait()
        if group is not None:
            cgroup.remove(group)
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@cache
def _compile_guest() -> None:
    """Compile what runs inside, where nothing can be written, as far as that is not done and is possible."""
    compile_dir(Path(__file__).parent / "guest", quiet=2)
