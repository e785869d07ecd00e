"""What no client should send: messages, frames, handshakes and requests, from a seeded generator."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Message = dict[str, Any]

MAX_MESSAGE_MB = 0.05
"""The longest message that the server takes."""

_OVERSIZED = int(MAX_MESSAGE_MB * 1024 * 1024) + 1
_MOST_NESTED = 5000
_MOST_IN_AN_ARRAY = 40
_ODD_NUMBERS = ["1e999", "-1e999", "-0", "9" * 5000, "1e-999", "NaN", "-Infinity", str(2**63), str(-(2**64)), "1.5"]
_ODD_TEXTS = ["", "\x00", "é", "\\ud800", "💥" * 40, "../../etc/passwd", "x" * 3000, "__class__", "${jndi:x}", "%s%n"]
_KEYS = ["type", "data", "id", "session", "seed", "amount", "token", "answered", "count", "wait_s", "episode_id", "x"]
_TYPES = ["reset", "step", "state", "mcp", "open", "attach", "fork", "bogus", "opened", "error", "__init__", ""]
_NAMES = ["", "none", "0.none", "-1", "x" * 300, "💥", "../0"]


class Hostility:
    """Makes what no client should send.

    Args:
        dice: Where all choices come from.
    """

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self._disfigurements: list[Callable[[Message], str | bytes]] = [
            self._noise,
            self._binary,
            self._cut_off,
            self._misspelt,
            self._any_json,
            self._nested,
            self._with_odd_number,
            self._rearranged,
            self._rearranged,
        ]

    def frame(self, valid: Message) -> str | bytes:
        """Make a frame, out of a message that would be valid.

        Args:
            valid: The message.
        """
        if self.dice.random() < 0.01:
            return json.dumps({**valid, "data": {"amount": 1, "metadata": {"pad": "x" * _OVERSIZED}}})
        return self.dice.choice(self._disfigurements)(valid)

    def array(self, valid: Sequence[Message]) -> str:
        """Make a frame of v1 that holds many messages, of which some are valid."""
        chosen = [self.dice.choice(valid) for _ in range(self.dice.randint(0, _MOST_IN_AN_ARRAY))]
        texts = [self._rearranged(message) if self.dice.random() < 0.7 else json.dumps(message) for message in chosen]
        return f"[{','.join(texts)}]"

    def message(self, session: str, last_id: int) -> Message:
        """Make a message of v1 that is well formed and, most probably, out of order or somebody else's."""
        kind = self.dice.choice(_TYPES)
        number = self.dice.choice([last_id, last_id - 1, last_id + 2, 0, 1, -1, 2**53, self.dice.randrange(2**31)])
        name = self.dice.choice([session, session, session[:-1], *_NAMES])
        return {"type": kind, "id": number, "session": name, "data": self._object()}

    def value(self, depth: int = 3) -> Any:
        """Make any JSON value."""
        kinds: list[Callable[[], Any]] = [
            lambda: None,
            lambda: self.dice.random() < 0.5,
            lambda: self.dice.randint(-(2**40), 2**70),
            lambda: self.dice.uniform(-1e300, 1e300),
            lambda: self.dice.choice(_ODD_TEXTS),
            lambda: self.dice.choice(_TYPES),
        ]
        if depth > 0:
            kinds.append(lambda: [self.value(depth - 1) for _ in range(self.dice.randint(0, 4))])
            kinds.append(lambda: self._object(depth - 1))
        return self.dice.choice(kinds)()

    def _object(self, depth: int = 2) -> Message:
        return {self.dice.choice(_KEYS): self.value(depth) for _ in range(self.dice.randint(0, 4))}

    def _noise(self, _: Message) -> str:
        return "".join(chr(self.dice.choice([self.dice.randrange(128), 0x20AC, 0x1F4A5])) for _ in range(40))

    def _binary(self, _: Message) -> bytes:
        return self.dice.randbytes(self.dice.randint(0, 200))

    def _cut_off(self, valid: Message) -> str:
        text = json.dumps(valid)
        return text[: self.dice.randrange(len(text))]

    def _misspelt(self, valid: Message) -> str:
        letters = list(json.dumps(valid))
        for _ in range(self.dice.randint(1, 3)):
            letters[self.dice.randrange(len(letters))] = chr(self.dice.randrange(32, 127))
        return "".join(letters)

    def _any_json(self, _: Message) -> str:
        return json.dumps(self.value())

    def _nested(self, valid: Message) -> str:
        depth = self.dice.randint(1, _MOST_NESTED)
        inner = "[" * depth + "]" * depth
        return inner if self.dice.random() < 0.5 else json.dumps({**valid, "data": "?"}).replace('"?"', inner)

    def _with_odd_number(self, valid: Message) -> str:
        place = self.dice.choice(["data", "id", "session", "type", "amount"])
        odd = {**valid, "data": {"amount": "?"}} if place == "amount" else {**valid, place: "?"}
        return json.dumps(odd).replace('"?"', self.dice.choice(_ODD_NUMBERS))

    def _rearranged(self, valid: Message) -> str:
        message = dict(valid)
        key = self.dice.choice([*message, *_KEYS])
        if key in message and self.dice.random() < 0.4:
            del message[key]
        else:
            message[key] = self.value()
        return json.dumps(message)


HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
"""A good one, of the legacy wire."""


def broken_handshake(dice: Random) -> bytes:
    """Make the beginning of a connection that is no handshake."""
    choices = [
        dice.randbytes(200) + b"\r\n\r\n",
        HANDSHAKE.replace(b"Version: 13", b"Version: 99"),
        HANDSHAKE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"short"),
        HANDSHAKE.replace(b"GET", b"BREW"),
        HANDSHAKE.replace(b"HTTP/1.1", b"HTTP/9.9"),
        HANDSHAKE.replace(b"Host: 127.0.0.1", b"X: " + b"y" * 100_000),
        HANDSHAKE.replace(b"\r\nConnection", b"\r\nContent-Length: -1\r\nConnection"),
        HANDSHAKE.replace(b"/ws", b"/ws?session_id=" + b"%ff" * 300),
        HANDSHAKE.replace(b"/ws", b"/no-such-path"),
        b"\x16\x03\x01" + dice.randbytes(100) + b"\r\n\r\n",  # as TLS begins
    ]
    return dice.choice(choices)


def broken_frames(dice: Random) -> bytes:
    """Make bytes that no WebSocket may carry; the server has to close it."""
    choices = [
        _frame(0x81, b"\xff\xfe\xfd"),  # text that is no UTF-8
        _frame(0x81, b"\xed\xa0\x80"),  # half a surrogate pair
        _frame(0x83 | dice.randrange(5), b"reserved"),
        _frame(0xF1, b"reserved bits"),
        _frame(0x80, b"continues nothing"),
        _frame(0x01, b"begun") + _frame(0x81, b"and begun again"),
        _frame(0x89, b"p" * 126),  # a ping that is too long
        _frame(0x09, b"a ping in parts"),
        _frame(0x88, b"\x03"),  # a close code cut in half
        _frame(0x88, (999).to_bytes(2)),
        _frame(0x88, (1000).to_bytes(2) + b"\xff\xff"),
        b"\x81\x05plain",  # not masked
        b"\x81\xff" + (2**63 - 1).to_bytes(8),
        b"\x81\xff" + (2**63 + 1).to_bytes(8),
    ]
    return dice.choice(choices)


def _frame(first: int, payload: bytes) -> bytes:
    """Write a frame whose mask is 0."""
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2)
    return bytes([first]) + size + bytes(4) + payload
