"""A small process that outlives this one and then removes the containers and services that it has left behind.

It is started with the first container and waits at a pipe whose other end is here. When this process ends, in whatever
way, the pipe is closed; ``kill -9`` is no exception.
"""

import atexit
import os
import select
import subprocess
import sys
import time
from contextlib import closing
from threading import Lock

from openenv.core.exceptions import ProviderError
from openenv.core.providers.docker.owner import Owner

_FINISH_TIMEOUT_S = 30.0
_LOOK_S = 1.0
"""How often it looks whether its parent is still there: a fork of the parent may hold the pipe open."""
_QUIET_S = 3.0
"""After this time without a container none can come: not even one that was being made when the parent was killed."""
_PAUSE_S = 0.25
_GIVE_UP_S = 300.0
"""After this time it leaves what the engine can't remove."""
_ORDERLY = b"."


class Reaper:
    """The process, seen from the one that it watches.

    Args:
        owner: The process to watch, which is this one.

    Raises:
        ProviderError: It can't be started.
    """

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        command = [sys.executable, "-P", "-m", __name__, str(owner)]
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C in the terminal is not for it.
                start_new_session=True,
            )
        except OSError as error:
            raise ProviderError(f"The process that removes containers can't be started: {error}.") from error

    @property
    def is_running(self) -> bool:
        """Whether it still watches."""
        return self._process.poll() is None

    def forget(self) -> None:
        """Let go of one that has ended before its time."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def finish(self) -> None:
        """Have it remove what is left, wait until it has, and so end it."""
        try:
            self._process.communicate(_ORDERLY, timeout=_FINISH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Reapers:
    """The reaper of this process, and of no process that was forked from it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reaper: Reaper | None = None
        self._pid = 0
        os.register_at_fork(after_in_child=self._forget)

    def start(self) -> Owner:
        """Make sure that a reaper watches this process, and return the process as the owner of its containers."""
        with self._lock:
            if self._reaper is not None and not self._reaper.is_running:
                self._reaper.forget()
                self._reaper = None
            if self._reaper is None:
                if self._pid != os.getpid():
                    self._pid = os.getpid()
                    atexit.register(self._finish, self._pid)
                self._reaper = Reaper(Owner.this_process())
            return self._reaper.owner

    def _finish(self, pid: int) -> None:
        if self._reaper is not None and pid == os.getpid():
            self._reaper.finish()

    def _forget(self) -> None:
        self._lock = Lock()
        self._reaper = None


REAPERS = Reapers()


def main() -> None:
    """Watch the parent, then remove the containers and services of the process that is named on the command line."""
    owner = Owner.parse(sys.argv[1])
    assert owner is not None
    orderly = _wait_for_end_of(owner.pid)
    # Until here it is a few megabytes; the SDK is many.
    from openenv.core.providers.docker.engine import connect
    from openenv.core.providers.docker.leftovers import remove_all_of

    with closing(connect()) as client:
        quiet_since = time.monotonic()
        gives_up_at = quiet_since + _GIVE_UP_S
        while remove_all_of(client, owner) or (not orderly and time.monotonic() - quiet_since < _QUIET_S):
            if time.monotonic() > gives_up_at:
                break
            time.sleep(_PAUSE_S)


def _wait_for_end_of(parent: int) -> bool:
    """Return whether the parent has said that it ends, rather than just ended."""
    while os.getppid() == parent:
        if select.select([0], [], [], _LOOK_S)[0]:
            return os.read(0, 1) == _ORDERLY
    return False


if __name__ == "__main__":
    main()
