"""What a supervisor and its workers tell each other, and the sockets that they hand over."""

import json
import socket
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

_READ_BYTES = 65536
# The kernel gives the sockets of one message at a time, and a message carries one at most.
_SOCKETS_PER_READ = 4
_END = b"\n"


class Kind(StrEnum):
    """What a message is about."""

    # To a worker, with a socket.
    CLIENT = "client"
    RELAYED = "relayed"
    # To a worker.
    STOP = "stop"
    # To the supervisor.
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"
    LEAVING = "leaving"
    RELAY = "relay"


@dataclass
class ChannelMessage:
    """One message.

    Attributes:
        kind: What it is about.
        value: ``READY``: for how many seconds the worker lets episodes end when it drains, and what peers from
            elsewhere have to show. ``FAILED``: why it can't serve. ``CLOSED``: how many clients have gone. ``RELAY``:
            the number of the worker that the socket is for, and the seconds to wait for it.
        carried: The socket that came with it; ``None`` where none belongs to it, or this process may open no more.
    """

    kind: Kind
    value: Any = None
    carried: socket.socket | None = None


_WITH_SOCKET = (Kind.CLIENT, Kind.RELAYED, Kind.RELAY)


class Channel:
    """One end of the line between a supervisor and a worker.

    Args:
        line: A connected Unix stream socket, which is the channel's from now on.
    """

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self._received = b""
        self._sockets: deque[socket.socket | None] = deque()

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Make both ends: the supervisor's, which never blocks, and the worker's."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        return cls(ours), cls(theirs)

    def send(self, kind: Kind, value: Any = None, carried: socket.socket | None = None) -> None:
        """Send a message, and a socket, of which the sender keeps its own copy.

        Raises:
            BlockingIOError: The other side has to read first; nothing was sent.
            OSError: The other side has gone.
        """
        line = json.dumps([kind, value]).encode() + _END
        # The kernel takes all of so short a message or none of it.
        if carried is None:
            self.line.send(line)
        else:
            socket.send_fds(self.line, [line], [carried.fileno()])

    def receive(self) -> list[ChannelMessage]:
        """Read what has come; call it when there is something to read.

        Raises:
            EOFError: The other side has gone.
            BlockingIOError: There is nothing.
        """
        received, descriptors, flags, _ = socket.recv_fds(self.line, _READ_BYTES, _SOCKETS_PER_READ)
        for descriptor in descriptors:
            carried = socket.socket(fileno=descriptor)
            carried.set_inheritable(False)
            self._sockets.append(carried)
        if flags & socket.MSG_CTRUNC:
            self._sockets.append(None)
        if not received:
            raise EOFError
        *lines, self._received = (self._received + received).split(_END)
        return [self._message(line) for line in lines]

    def close(self) -> None:
        """Close this end."""
        self.line.close()

    def _message(self, line: bytes) -> ChannelMessage:
        kind, value = json.loads(line)
        carried = self._sockets.popleft() if kind in _WITH_SOCKET else None
        return ChannelMessage(Kind(kind), value, carried)
