"""Measurement of the network that a process reaches: a sink, and attempts to reach it.

It runs as a program of its own, also by the Python of a container without OpenEnv, so it uses the standard library
alone: ``sink`` listens and prints its address; ``probe HOST TCP UDP [PID]`` prints what is reached, from the network of
the process with that number.
"""

import ctypes
import errno
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

_TIMEOUT_S = 2.0
_WORD = b"openenv"
_ANY = "0.0.0.0"  # noqa: S104  # it is to be reached from other networks, and answers nothing but a word
_LOOPBACK = "127.0.0.1"
_NAMESPACES = ("user", "net")
# Echo request number 1; the third field is its checksum.
_ECHO = struct.pack("!BBHHH", 8, 0, 0xF7FE, 0, 1)
_LISTENING = "0A"
# The attempt itself can't be made.
_INCONCLUSIVE = (errno.EPERM, errno.EACCES, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT)


def sink() -> None:
    """Answer what comes over TCP and UDP, until standard input ends."""
    with socket.create_server((_ANY, 0)) as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind((_ANY, 0))
        address = [_own_address(), stream.getsockname()[1], datagrams.getsockname()[1]]
        sys.stdout.write(json.dumps(address) + "\n")
        sys.stdout.flush()
        while True:
            ready = select.select([stream.fileno(), datagrams.fileno(), 0], [], [])[0]
            if 0 in ready and not os.read(0, 1):
                return
            if stream.fileno() in ready:
                with stream.accept()[0] as connection:
                    connection.sendall(_WORD)
            if datagrams.fileno() in ready:
                word, sender = datagrams.recvfrom(64)
                datagrams.sendto(word, sender)


def probe(host: str, tcp_port: int, udp_port: int, pid: int | None = None) -> dict[str, object]:
    """Return what is reached, and the network that is seen, from this process or from another one's namespaces."""
    if pid is not None:
        _enter(pid)
    attempts = {
        "tcp": lambda: _reach_tcp(host, tcp_port),
        "udp": lambda: _reach_udp(host, udp_port),
        "icmp": lambda: _reach_icmp(host),
    }
    return {"outcomes": {kind: _outcome(attempt) for kind, attempt in attempts.items()}, "namespace": _namespace()}


def _own_address() -> str:
    """Return the address of this machine in its network; that of loopback where it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        try:
            datagrams.connect(("192.0.2.1", 9))  # of an address for examples
        except OSError:
            return _LOOPBACK
        address: str = datagrams.getsockname()[0]
        return address


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for name in _NAMESPACES:
        theirs, ours = Path(f"/proc/{pid}/ns/{name}"), Path(f"/proc/self/ns/{name}")
        if theirs.readlink() == ours.readlink():
            continue
        with theirs.open("rb") as namespace:
            if libc.setns(namespace.fileno(), 0) < 0:
                number = ctypes.get_errno()
                raise OSError(number, f"the namespace {theirs} can't be entered: {os.strerror(number)}")


def _outcome(attempt: Callable[[], None]) -> dict[str, object]:
    try:
        attempt()
    except TimeoutError:
        return {"result": "denied", "errno": errno.ETIMEDOUT}
    except OSError as error:
        return {"result": "inconclusive" if error.errno in _INCONCLUSIVE else "denied", "errno": error.errno}
    return {"result": "reachable", "errno": None}


def _reach_tcp(host: str, port: int) -> None:
    with socket.create_connection((host, port), _TIMEOUT_S) as connection:
        _expect_word(connection)


def _reach_udp(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(_TIMEOUT_S)
        datagrams.connect((host, port))
        datagrams.send(_WORD)
        _expect_word(datagrams)


def _expect_word(connection: socket.socket) -> None:
    if connection.recv(len(_WORD)) != _WORD:
        raise ConnectionResetError(errno.ECONNRESET, "something else than the sink answers")


def _reach_icmp(host: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as packets:
        packets.settimeout(_TIMEOUT_S)
        packets.connect((host, 0))
        packets.send(_ECHO)
        packets.recv(64)


def _namespace() -> dict[str, object]:
    return {
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "default_route": any(fields[1] == fields[7] == "00000000" for fields in _lines("route")[1:]),
        "ipv6_non_loopback": sum(fields[5] != "lo" for fields in _lines("if_inet6")),
        "listening_ports": sorted(
            {
                int(fields[1].rpartition(":")[2], 16)
                for name in ("tcp", "tcp6")
                for fields in _lines(name)[1:]
                if fields[3] == _LISTENING
            }
        ),
    }


def _lines(name: str) -> list[list[str]]:
    """Return the fields of each line of a table of this network; none where the kernel has no such table."""
    file = Path("/proc/thread-self/net") / name
    return [line.split() for line in file.read_text("ascii").splitlines()] if file.exists() else []


def main() -> None:
    """Run what the command line names."""
    operation, *arguments = sys.argv[1:]
    if operation == "sink":
        sink()
    else:
        host, *numbers = arguments
        sys.stdout.write(json.dumps(probe(host, *map(int, numbers))))


if __name__ == "__main__":
    main()
