"""WebSocket frames of whole messages, written and read in one step each.

Nearly all frames of a client are such ones. Everything else, such as pings, the closing handshake, fragments and what
breaks the rules, is left to the ``websockets`` library.
"""

import os

from websockets.frames import Opcode, apply_mask  # type: ignore[attr-defined]  # where it stands in C or in Python

TEXT_FRAME = 0x80 | Opcode.TEXT
"""First byte of a text frame that is a whole message."""

BINARY_FRAME = 0x80 | Opcode.BINARY
"""First byte of a binary frame that is a whole message."""

_MESSAGES = (TEXT_FRAME, BINARY_FRAME)
_MASKED = 0x80
_LENGTH_OF_2_BYTES, _LENGTH_OF_8_BYTES = 126, 127
_MASK_BYTES = 4


def text_frame(message: bytes) -> bytes:
    """Put a message into a text frame, masked as a client's frames are.

    Args:
        message: The message, in UTF-8.
    """
    size = len(message)
    if size < _LENGTH_OF_2_BYTES:
        head = bytes((TEXT_FRAME, _MASKED | size))
    elif size < 1 << 16:
        head = bytes((TEXT_FRAME, _MASKED | _LENGTH_OF_2_BYTES)) + size.to_bytes(2)
    else:
        head = bytes((TEXT_FRAME, _MASKED | _LENGTH_OF_8_BYTES)) + size.to_bytes(8)
    mask = os.urandom(_MASK_BYTES)
    return head + mask + apply_mask(message, mask)


class FrameSplitter:
    r"""Divides what a server sends, from the end of the opening handshake on, into frames.

    Example:
        >>> splitter = FrameSplitter()
        >>> splitter.split(bytes([TEXT_FRAME, 2]) + b"hi" + bytes([TEXT_FRAME]), 100)
        [(2, b'\x81\x02hi')]
    """

    def __init__(self) -> None:
        # The beginning of a frame, and how many bytes of it there must be before it is looked at again.
        self._unread = bytearray()
        self._wanted = 0
        # Bytes that are still to come of a frame whose beginning was handed out.
        self._remaining = 0

    def split(self, data: bytes, longest: int | None) -> list[tuple[int, bytes]]:
        """Divide the next bytes.

        Args:
            data: What has come.
            longest: Length in bytes of the longest message to wait for; ``None`` for no limit.

        Returns:
            Each frame that is a whole message, with the number of bytes before its payload; with a 0 the parts of other
            frames, as they come.
        """
        if self._unread:
            self._unread += data
            if len(self._unread) < self._wanted:
                return []
            data = bytes(self._unread)
            self._unread.clear()
        size = len(data)
        start = min(self._remaining, size)
        self._remaining -= start
        parts = [(0, data[:start])] if start else []
        while start < size:
            head, end = _frame_at(data, start)
            is_message = bool(head) and _is_message(data, start) and (longest is None or end - start - head <= longest)
            if not head or (is_message and end > size):
                self._unread += data[start:]
                self._wanted = end - start
                break
            parts.append((head if is_message else 0, data[start:end]))
            self._remaining = max(end - size, 0)
            start = end
        return parts


def _is_message(data: bytes, start: int) -> bool:
    """Whether a frame is a whole message, and not masked, as no server's may be."""
    return data[start] in _MESSAGES and data[start + 1] < _MASKED


def _frame_at(data: bytes, start: int) -> tuple[int, int]:
    """Return the number of bytes before a frame's payload, 0 as long as that is unknown, and where the frame ends."""
    if len(data) < start + 2:
        return 0, start + 2
    length = data[start + 1] & ~_MASKED
    if length < _LENGTH_OF_2_BYTES:
        return 2, start + 2 + length
    head = 4 if length == _LENGTH_OF_2_BYTES else 10
    if len(data) < start + head:
        return 0, start + head
    return head, start + head + int.from_bytes(data[start + 2 : start + head])
