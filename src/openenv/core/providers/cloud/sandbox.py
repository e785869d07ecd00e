"""What a provider needs of a service's sandbox, and how a server runs in one that takes shell commands."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from openenv.core.addresses import is_on_this_machine
from openenv.core.exceptions import ProviderError

_UNWRITABLE = "openenv-can-not-write"


@dataclass(frozen=True)
class Address:
    """Where a sandbox's server is reached.

    Attributes:
        url: Its address.
        headers: What each request has to send.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Sandbox(ABC):
    """A sandbox of a service, from before it is made until it is removed.

    Args:
        name: Its name, which no other has: so it can be removed even if the answer to its creation never came.
    """

    appears_within_s: ClassVar[float] = 15.0
    """Seconds in which a sandbox may still appear after its creation had no answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def create(self) -> None:
        """Have it made, and wait until it runs.

        Raises:
            ProviderError: The service refuses, or the sandbox can't run.
            ServerNotReadyError: It did not run in time.
        """

    @abstractmethod
    def start_server(self, script: str) -> None:
        """Start the server by a shell script, without waiting for it."""

    @abstractmethod
    def address(self, port: int) -> Address:
        """Say where a port of it is reached."""

    @abstractmethod
    def why_ended(self) -> str | None:
        """Return why the server can't answer any more; ``None`` while it may."""

    @abstractmethod
    def logs(self, size: int) -> str:
        """Return the end of what the server has printed.

        Args:
            size: How many characters, at most.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove it, whatever state it is in; without an error if there is none any more.

        Raises:
            ProviderError: The service can't; it may be there still.
        """


class ShellSandbox(Sandbox):
    """A sandbox in which a server is started and watched by shell commands."""

    @abstractmethod
    def run(self, command: str) -> str:
        """Run a short shell command, which does no harm if it runs twice, and return what it printed.

        Raises:
            ProviderError: The service can't.
        """

    def start_server(self, script: str) -> None:
        """Start the server in the background."""
        # The folder "started" says that an earlier try of this command, whose answer was lost, has come as far.
        started = f"{self._folder}/started"
        self._run_checked(
            f"[ -d {started} ] && exit 0\n{self._write(script)}\nmkdir {started} || exit 0\n"
            f"nohup sh -c {shlex.quote(self._serve)} > /dev/null 2>&1 < /dev/null &"
        )

    def why_ended(self) -> str | None:
        """Look for the note of how the server ended."""
        code = self.run(f"cat {self._folder}/ended 2>/dev/null || true").strip()
        return f"its server ended with exit code {code}" if code else None

    def logs(self, size: int) -> str:
        """Read the end of the server's log; empty if the service can't."""
        try:
            return self.run(f"tail -c {size} {self._folder}/log 2>/dev/null || true")[-size:]
        except ProviderError:
            return ""

    def _write(self, script: str) -> str:
        """Return the command that writes the script, which may run several times."""
        # Into a file, as everyone in the sandbox can read a command's arguments; it removes itself.
        folder, script = self._folder, shlex.quote(f"rm -f {self._folder}/start\n{script}")
        make = f"{{ [ -d {folder} ] || mkdir {folder}; }}"
        write = f"umask 077; {make} && printf %s {script} > {folder}/new && mv {folder}/new {folder}/start"
        return f"( {write} ) 2>&1 || {{ echo {_UNWRITABLE}; exit 1; }}"

    def _run_checked(self, command: str) -> None:
        """Run the command of ``_write``, and what may follow it."""
        said = self.run(command)
        if _UNWRITABLE in said:
            raise ProviderError(
                f"The sandbox {self.name} lets no server start: {said.replace(_UNWRITABLE, '').strip()}"
            )

    @property
    def _serve(self) -> str:
        """The command that runs the script until the server ends."""
        # A process that has ended may be found as a zombie for ever, so its parent leaves a note of how it ended.
        return f"sh {self._folder}/start > {self._folder}/log 2>&1 < /dev/null; echo $? > {self._folder}/ended"

    @property
    def _folder(self) -> str:
        return f"/tmp/{self.name}"  # noqa: S108  # in the sandbox, which has no other users


def check_encrypted(url: str, service: str, what: str) -> None:
    """Raise ``ProviderError`` for an address to which no token may be sent: another machine's, without HTTPS.

    Args:
        url: The address.
        service: The service that gave it.
        what: What it is the address of.
    """
    if not url.startswith("https://") and not is_on_this_machine(url):
        raise ProviderError(f"{service} gave {what} an address without https, to which no token is sent.")
