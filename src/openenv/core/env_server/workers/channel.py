"""Messages and sockets that pass between a supervisor and its workers."""

import json
import socket
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

_READ_BYTES = 65536
# The kernel returns the sockets of one message at a time, and a message carries at most one socket.
_SOCKETS_PER_READ = 4
_END = b"\n"


class Kind(StrEnum):
    """Types of messages."""

    # To a worker, with a socket.
    CLIENT = "client"
    FORWARDED = "forwarded"
    # To a worker.
    STOP = "stop"
    # To the supervisor.
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"
    STOPPING = "stopping"
    FORWARD = "forward"


@dataclass
class ChannelMessage:
    """Message between a supervisor and a worker.

    Attributes:
        kind: Type of the message.
        value: ``READY``: seconds that the worker waits for episodes when it drains, and the requirement
            for peers. ``FAILED``: why the worker can't serve. ``CLOSED``: how many clients have
            disconnected. ``FORWARD``: the number of the worker that the socket is for, and the seconds to wait for it.
        carried: Socket that the message carried, if any; ``None`` where this process may open no more files.
    """

    kind: Kind
    value: Any = None
    carried: socket.socket | None = None


_WITH_SOCKET = (Kind.CLIENT, Kind.FORWARDED, Kind.FORWARD)


class Channel:
    """End of the Unix socket between a supervisor and a worker.

    Args:
        connection: Connected Unix stream socket, which the channel owns from now on.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._received = b""
        self._sockets: deque[socket.socket | None] = deque()

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Create both ends: the supervisor's, which never blocks, and the worker's."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        return cls(ours), cls(theirs)

    def send(self, kind: Kind, value: Any = None, carried: socket.socket | None = None) -> None:
        """Send a message, and a socket, of which the sender keeps its copy.

        Raises:
            BlockingIOError: The buffer of the socket is full; nothing was sent.
            OSError: The other end is closed.
        """
        line = json.dumps([kind, value]).encode() + _END
        # The kernel sends all of so short a message or none of it.
        if carried is None:
            self.connection.send(line)
        else:
            socket.send_fds(self.connection, [line], [carried.fileno()])

    def receive(self) -> list[ChannelMessage]:
        """Return the messages that have arrived; for a readable socket.

        Raises:
            EOFError: The other end is closed.
            BlockingIOError: Nothing has arrived.
        """
        received, descriptors, flags, _ = socket.recv_fds(self.connection, _READ_BYTES, _SOCKETS_PER_READ)
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
        self.connection.close()

    def _message(self, line: bytes) -> ChannelMessage:
        kind, value = json.loads(line)
        carried = self._sockets.popleft() if kind in _WITH_SOCKET else None
        return ChannelMessage(Kind(kind), value, carried)
