"""WebSocket frames of whole messages, written and read in one step each, for clients and servers.

Nearly all frames are such ones. Everything else, such as pings, the closing handshake, fragments, compressed messages
and what breaks the rules, is left to the ``websockets`` library.
"""

import os
from collections.abc import Iterator

from websockets.frames import Opcode, apply_mask  # type: ignore[attr-defined]  # where it stands in C or in Python

TEXT_FRAME = 0x80 | Opcode.TEXT
"""First byte of a text frame that is a whole message."""

BINARY_FRAME = 0x80 | Opcode.BINARY
"""First byte of a binary frame that is a whole message."""

PIECE = 1024 * 1024
"""Characters or bytes of a long message that one frame holds."""

_LAST = 0x80
_MESSAGES = (TEXT_FRAME, BINARY_FRAME)
_MASKED = 0x80
_LENGTH_OF_2_BYTES, _LENGTH_OF_8_BYTES = 126, 127
_MASK_BYTES = 4


def client_frame(message: bytes) -> bytes:
    """Put a message into a text frame, masked as a client's frames are.

    Args:
        message: The message, in UTF-8.
    """
    mask = os.urandom(_MASK_BYTES)
    return _head(TEXT_FRAME, _MASKED, len(message)) + mask + apply_mask(message, mask)


def server_frame(message: bytes, *, binary: bool = False) -> bytes:
    """Put a message into a frame, not masked, as no server's frame may be.

    Args:
        message: The message; in UTF-8 for a text frame.
        binary: Whether it is a binary frame.
    """
    return _head(BINARY_FRAME if binary else TEXT_FRAME, 0, len(message)) + message


def server_frames(message: str | bytes) -> Iterator[bytes]:
    """Put a long message into frames of a piece each, of which each is written when it is its turn.

    Args:
        message: The text of a text message, or the bytes of a binary one.
    """
    kind = Opcode.TEXT if isinstance(message, str) else Opcode.BINARY
    pieces = message if isinstance(message, str) else memoryview(message)
    for start in range(0, len(message), PIECE):
        piece = pieces[start : start + PIECE]
        written = piece.encode() if isinstance(piece, str) else piece
        last = _LAST if start + PIECE >= len(message) else 0
        yield b"".join((_head(last | (Opcode.CONT if start else kind), 0, len(written)), written))


def _head(first: int, mask_bit: int, size: int) -> bytes:
    """Write what stands before mask and payload."""
    if size < _LENGTH_OF_2_BYTES:
        return bytes((first, mask_bit | size))
    if size < 1 << 16:
        return bytes((first, mask_bit | _LENGTH_OF_2_BYTES)) + size.to_bytes(2)
    return bytes((first, mask_bit | _LENGTH_OF_8_BYTES)) + size.to_bytes(8)


def payload_of(frame: bytes, head: int) -> bytes:
    """Return the payload of a frame, without its mask if it has one.

    Args:
        frame: The frame.
        head: Number of bytes before its payload.
    """
    if frame[1] < _MASKED:
        return frame[head:]
    return apply_mask(memoryview(frame)[head:], frame[head - _MASK_BYTES : head])


class FrameSplitter:
    r"""Divides what the other side sends, from the end of the opening handshake on, into frames.

    Args:
        masked: Whether the other side is a client, whose frames are masked.

    Example:
        >>> splitter = FrameSplitter(masked=False)
        >>> splitter.split(bytes([TEXT_FRAME, 2]) + b"hi" + bytes([TEXT_FRAME]), 100)
        [(2, b'\x81\x02hi')]
    """

    def __init__(self, *, masked: bool) -> None:
        self._masked = masked
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
        parts = []
        start, size = 0, len(data)
        if self._remaining:
            start = min(self._remaining, size)
            self._remaining -= start
            parts.append((0, data[:start]))
        while start < size:
            head, end = _frame_at(data, start)
            is_message = (
                bool(head) and self._is_message(data, start) and (longest is None or end - start - head <= longest)
            )
            if not head or (is_message and end > size):
                self._unread += data[start:]
                self._wanted = end - start
                break
            parts.append((head if is_message else 0, data[start:end]))
            if end > size:
                self._remaining = end - size
            start = end
        return parts

    def _is_message(self, data: bytes, start: int) -> bool:
        """Whether a frame is a whole message, and masked as the other side's frames have to be."""
        return data[start] in _MESSAGES and (data[start + 1] >= _MASKED) is self._masked


def _frame_at(data: bytes, start: int) -> tuple[int, int]:
    """Return the number of bytes before a frame's payload, 0 as long as that is unknown, and where the frame ends."""
    if len(data) < start + 2:
        return 0, start + 2
    second = data[start + 1]
    length = second & ~_MASKED
    mask_bytes = _MASK_BYTES if second >= _MASKED else 0
    if length < _LENGTH_OF_2_BYTES:
        head = 2 + mask_bytes
        return head, start + head + length
    length_end = 4 if length == _LENGTH_OF_2_BYTES else 10
    if len(data) < start + length_end:
        return 0, start + length_end
    length = int.from_bytes(data[start + 2 : start + length_end])
    head = length_end + mask_bytes
    return head, start + head + length
