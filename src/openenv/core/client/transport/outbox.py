"""What a client sends over one connection of v1: messages that are ready together leave in one frame."""

from openenv.core.client.transport.connection import Connection
from openenv.core.exceptions import OpenEnvError

# Bytes after which no further message is put into a frame, so that the server begins while the rest is being sent.
FULL_FRAME = 64 * 1024


class Outbox:
    """The messages that are to leave over a connection.

    Args:
        connection: The connection. Its receiver learns of it where it turns out to be lost.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._messages: list[bytes] = []
        self._turn_is_noted = False

    def post(self, message: bytes) -> None:
        """Send a message: at once where it is the first in the loop's turn, else with the turn's others."""
        if self._turn_is_noted:
            self._messages.append(message)
            return
        self._turn_is_noted = True
        self._connection.loop.call_soon(self._end_turn)
        self.send([message])

    def send(self, messages: list[bytes]) -> None:
        """Send messages now, in as few frames as make sense."""
        try:
            for frame in _frames(messages):
                self._connection.send_message(frame)
        except OpenEnvError:
            self._connection.tell_lost()

    def clear(self) -> None:
        """Forget what was not sent."""
        self._messages.clear()

    def _end_turn(self) -> None:
        self._turn_is_noted = False
        if self._messages:
            messages, self._messages = self._messages, []
            self.send(messages)


def _frames(messages: list[bytes]) -> list[bytes]:
    if len(messages) == 1:
        return messages
    frames, start, size = [], 0, 0
    for end, message in enumerate(messages, 1):
        size += len(message)
        if size >= FULL_FRAME or end == len(messages):
            frames.append(b"[" + b",".join(messages[start:end]) + b"]")
            start, size = end, 0
    return frames
