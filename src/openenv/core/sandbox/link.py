"""The server's end of the socket to a sandbox. What comes over it is checked and bounded: it may be anything."""

import socket
import time
from collections.abc import Mapping
from typing import Any

from openenv.core.sandbox.guest.frames import Frame, pack, read_frame


class LinkBrokenError(Exception):
    """The other end is gone, silent for too long, or says what is no answer."""


class Link:
    """One end of a socket.

    Args:
        end: The socket.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, head: Mapping[str, Any], body: bytes, timeout_s: float) -> None:
        """Send a frame.

        Raises:
            LinkBrokenError: It can't be sent.
        """
        self._socket.settimeout(timeout_s)
        try:
            self._socket.sendall(pack(head, body))
        except OSError as error:
            raise LinkBrokenError(str(error)) from error

    def receive(self, most_body_bytes: int, timeout_s: float) -> Frame:
        """Wait for a frame.

        Args:
            most_body_bytes: A frame with a longer body is none.
            timeout_s: Seconds until all of it must be there.

        Raises:
            LinkBrokenError: None comes.
        """
        deadline = time.monotonic() + timeout_s
        try:
            return read_frame(lambda count: self._exactly(count, deadline), most_body_bytes)
        except (OSError, ValueError, RecursionError) as error:
            raise LinkBrokenError(str(error)) from error

    def close(self) -> None:
        """Close it, which ends the sandbox."""
        self._socket.close()

    def _exactly(self, count: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            piece = self._socket.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise ConnectionResetError("the other end has closed it")
            data += piece
        return bytes(data)
