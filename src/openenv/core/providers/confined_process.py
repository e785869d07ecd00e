"""A server in a child process that sees little of the machine: for environments that are to be judged, not trusted."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from openenv.core.exceptions import ProviderError
from openenv.core.providers.local_process import LocalProcessProvider

MISSING = "bubblewrap (the package `bubblewrap` of most distributions), which has to be allowed to make namespaces"
"""Program that a machine lacks where servers can't be confined."""

_ISOLATION = (
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
# Sockets of services, such as Docker's, through which a process could do anything.
_SERVICES = "/run"
# What a program needs of its user's variables; all others may hold secrets, or change what the environment does.
_KEPT = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
_RESOLVER = "/run/systemd/resolve"
_TRIAL_TIMEOUT_S = 60.0


class ConfinedProcessProvider(LocalProcessProvider):
    """Runs ``openenv serve`` for an environment in a child process with a file system that it can only read.

    It has folders of its own for temporary files and instead of the user's home, which are in memory and of a limited
    size, and processes, services and secrets of the machine are hidden from it. Without a network it reaches no
    address at all, its own loopback aside; it is reached by the listening socket, which was made outside. It can make
    no sandboxes of its own, as those of ``openenv.core.sandbox``.

    Args:
        environment: Name of an installed environment, the folder that holds its ``openenv.yaml``, or its file.
        network: Whether it has the machine's network.
        disk_bytes: Size of each of its writable folders.
        max_sessions: Sessions that the server may hold at once; the environment's own default if ``None``.
        env_vars: Environment variables of the server; of this process's own it has but a few.
        grace_s: Seconds that ``stop`` leaves the server to end by itself.

    Raises:
        ProviderError: The machine can't confine processes so; see ``can_confine_servers``.

    Example::

        with ConfinedProcessProvider("envs/catch_env", network=False) as provider:
            provider.wait_for_ready()
    """

    def __init__(
        self,
        environment: str | Path,
        *,
        network: bool = False,
        disk_bytes: int = 256 * 2**20,
        max_sessions: int | None = None,
        env_vars: Mapping[str, str] | None = None,
        grace_s: float = 5.0,
    ) -> None:
        if not can_confine_servers():
            raise ProviderError(f"A server can't be confined on this machine: it lacks {MISSING}.")
        if Path(environment).exists():  # the server starts in another folder
            environment = Path(environment).resolve()
        super().__init__(environment, max_sessions=max_sessions, env_vars=env_vars, grace_s=grace_s)
        self.network = network
        self.disk_bytes = disk_bytes

    @property
    def inner_pid(self) -> int | None:
        """Process id of the first process within the confinement, as seen from outside; ``None`` if none runs."""
        if self.pid is None:
            return None
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text("ascii").split()
        except OSError:  # it has ended
            return None
        return int(children[0]) if children else None

    def _wrapped(self, command: Sequence[str]) -> Sequence[str]:
        folders = [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", str(Path.home()), _SERVICES]  # noqa: S108
        hidden = [os.path.realpath(folder) for folder in folders if Path(folder).is_dir()]
        options = [
            each for folder in sorted(set(hidden)) for each in ("--size", str(self.disk_bytes), "--tmpfs", folder)
        ]
        for path in self._needed(hidden):
            options += ["--ro-bind", path, path]
        network = ["--ro-bind-try", _RESOLVER, _RESOLVER] if self.network else ["--unshare-net"]
        return ["bwrap", *_ISOLATION, *options, *network, "--chdir", "/", "--", *command]

    def _needed(self, hidden: Sequence[str]) -> Iterator[str]:
        """Iterate over the folders that the server needs and that are in one that is hidden."""
        environment = Path(self.environment)
        own = [environment if environment.is_dir() else environment.parent] if environment.exists() else []
        paths = [*own, *map(Path, (sys.prefix, sys.base_prefix, *filter(None, sys.path)))]
        for path in dict.fromkeys(os.path.realpath(path) for path in paths if path.exists()):
            if any(path.startswith(f"{folder}{os.sep}") for folder in hidden):
                yield path

    def _inherited(self) -> Mapping[str, str]:
        return {name: value for name, value in os.environ.items() if name in _KEPT}


@cache
def can_confine_servers() -> bool:
    """Return whether this machine can confine servers, by trying it once."""
    if not sys.platform.startswith("linux") or shutil.which("bwrap") is None:
        return False
    command = ["bwrap", *_ISOLATION, "--unshare-net", "--", "true"]
    try:
        return subprocess.run(command, capture_output=True, timeout=_TRIAL_TIMEOUT_S, check=False).returncode == 0  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
