"""Another machine on the network: a network namespace of Linux, joined to this one by a virtual cable."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.support.needs import require, skip_without


@dataclass(frozen=True)
class OtherMachine:
    """A network of its own, from which this machine is seen as from outside.

    Attributes:
        name: The namespace's.
        address_of_ours: This machine's address, as seen from there.
        address: Its own address.
    """

    name: str
    address_of_ours: str
    address: str

    def run(self, *command: str, stdin: str = "", timeout_s: float = 60) -> str:
        """Run a command there; return what it prints."""
        ended = subprocess.run(
            ["ip", "netns", "exec", self.name, *command],
            input=stdin,
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        return ended.stdout

    def run_python(self, program: str, *arguments: str, stdin: str = "") -> str:
        """Run a Python program there; return what it prints."""
        return self.run(sys.executable, program, *arguments, stdin=stdin)


@contextmanager
def other_machine() -> Iterator[OtherMachine]:
    """Set another machine up and take it away; skips the test where this machine can't."""
    require("ip")
    number = os.getpid() % (1 << 14)  # of the 16,384 networks of four addresses in 10.213.0.0/16
    network = f"10.213.{number >> 6}"
    last = (number & 63) << 2
    machine = OtherMachine(f"openenv-{number}", f"{network}.{last + 1}", f"{network}.{last + 2}")
    ours, theirs = f"oe{number}a", f"oe{number}b"
    with ExitStack() as undo:
        _ip("netns", "add", machine.name)
        undo.callback(_ip, "netns", "delete", machine.name)
        _ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", machine.name)
        undo.callback(_ip, "link", "delete", ours)
        _ip("address", "add", f"{machine.address_of_ours}/30", "dev", ours)
        _ip("link", "set", ours, "up")
        _ip("-n", machine.name, "address", "add", f"{machine.address}/30", "dev", theirs)
        _ip("-n", machine.name, "link", "set", theirs, "up")
        _ip("-n", machine.name, "link", "set", "lo", "up")
        yield machine


def _ip(*arguments: str) -> None:
    ended = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if ended.returncode != 0:
        failed = f"`ip {' '.join(arguments)}` failed: {ended.stderr.strip()}"
        skip_without("a network namespace", f"{failed}; it needs Linux and root (CAP_NET_ADMIN, CAP_SYS_ADMIN)")
