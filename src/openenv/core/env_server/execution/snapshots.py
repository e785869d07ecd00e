"""Snapshots of environments, encoded so that they can be stored, sent and passed to ``restore``."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from openenv.core.exceptions import EnvironmentFailedError

_JSON, _BASE64 = "json", "base64"
# Key of the rubrics' states, beside one of the two above, in a snapshot that holds both.
_RUBRIC = "openenv.rubric"
_IS_JSON, _IS_BYTES = b"j", b"b"

# JSON is encoded in C, which blocks the event loop meanwhile, so large values are encoded in pieces of so many items.
# Containers with fewer items are searched to this depth, since an item of theirs may be large.
_ITEMS_A_PIECE = 64
_DEEPEST_PIECES = 3
# Seconds of encoding on the event loop before other tasks run.
_LONGEST_TURN_S = 0.005


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of an environment, encoded.

    Attributes:
        written: Bytes as they are, or any other value as JSON.
    """

    written: bytes | str

    @classmethod
    def of(cls, value: Any) -> "Snapshot":
        """Encode the return value of ``snapshot``.

        Raises:
            EnvironmentFailedError: The value is neither bytes nor JSON.

        Example:
            >>> Snapshot.of({"total": 3, "history": (1, 2)}).value()
            {'total': 3, 'history': [1, 2]}
        """
        if isinstance(value, bytes | bytearray | memoryview):
            return cls(bytes(value))
        try:
            return cls("".join(_pieces(value)))
        except (TypeError, ValueError, RecursionError) as error:
            raise _unwritable(value, error) from error

    @classmethod
    async def of_in_turns(cls, value: Any) -> "Snapshot":
        """Encode as ``of`` does, without blocking the event loop: large values a piece at a time.

        Raises:
            EnvironmentFailedError: As ``of`` does.
        """
        if isinstance(value, bytes | bytearray | memoryview):
            return cls(bytes(value))
        written: list[str] = []
        turn_ends = time.monotonic() + _LONGEST_TURN_S
        try:
            for piece in _pieces(value):
                written.append(piece)
                if time.monotonic() >= turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = time.monotonic() + _LONGEST_TURN_S
        except (TypeError, ValueError, RecursionError) as error:
            raise _unwritable(value, error) from error
        return cls("".join(written))

    def value(self) -> Any:
        """Return the argument of ``restore``: bytes, or the value as decoded from JSON."""
        return json.loads(self.written) if isinstance(self.written, str) else self.written

    def with_rubric(self, states: Mapping[str, Any]) -> "Snapshot":
        """Return a snapshot that also holds what the rubrics of the environment have kept.

        Args:
            states: Their ``episode_state`` by path.

        Raises:
            EnvironmentFailedError: JSON can't hold a state.
        """
        try:
            written = json.dumps(states)
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvironmentFailedError(
                f"The rubric's episode_state() can't be stored: expected what JSON can hold: {error}"
            ) from error
        if isinstance(self.written, str):
            return Snapshot(f'{{"{_RUBRIC}": {written}, "{_JSON}": {self.written}}}')
        return Snapshot(f'{{"{_RUBRIC}": {written}, "{_BASE64}": "{base64.b64encode(self.written).decode()}"}}')

    def parts(self) -> tuple[Any, Mapping[str, Any]]:
        """Return the argument of ``restore``, and the states of the rubrics by path."""
        value = self.value()
        if not isinstance(value, dict) or _RUBRIC not in value:
            return value, {}
        environment = value[_JSON] if _JSON in value else base64.b64decode(value[_BASE64])
        return environment, value[_RUBRIC]

    def to_bytes(self) -> bytes:
        """Encode the snapshot as bytes, the first of which marks whether the rest is JSON; for a journal."""
        return _IS_JSON + self.written.encode() if isinstance(self.written, str) else _IS_BYTES + self.written

    @classmethod
    def from_bytes(cls, written: bytes) -> "Snapshot":
        """Decode the result of ``to_bytes``."""
        return cls(written[1:].decode() if written[:1] == _IS_JSON else written[1:])

    def to_json(self) -> str:
        """Encode the snapshot as JSON, bytes included, for another process."""
        if isinstance(self.written, str):
            return json.dumps({_JSON: self.written})
        return json.dumps({_BASE64: base64.b64encode(self.written).decode()})

    @classmethod
    def from_json(cls, text: str) -> "Snapshot":
        """Decode the result of ``to_json``.

        Raises:
            ValueError: The text is no such result; or ``TypeError`` or ``KeyError``.
        """
        document = json.loads(text)
        return cls(document[_JSON] if _JSON in document else base64.b64decode(document[_BASE64]))


def _pieces(value: Any, depth: int = 0) -> Iterator[str]:
    """Encode a value as ``json.dumps`` does, in pieces of which none takes long."""
    if depth == _DEEPEST_PIECES or type(value) not in (dict, list, tuple) or not value:
        yield json.dumps(value)
    elif type(value) is dict:
        yield from _pieces_of_dict(value, depth)
    else:
        yield from _pieces_of_list(value, depth)


def _pieces_of_dict(value: dict[Any, Any], depth: int) -> Iterator[str]:
    before = "{"
    if len(value) > _ITEMS_A_PIECE:
        items = iter(value.items())
        while part := dict(islice(items, _ITEMS_A_PIECE)):
            yield before + json.dumps(part)[1:-1]
            before = ", "
    else:
        for key, element in value.items():
            yield before + json.dumps({key: 0})[1:-2]  # the key in JSON, and the colon
            yield from _pieces(element, depth + 1)
            before = ", "
    yield "}"


def _pieces_of_list(value: list[Any] | tuple[Any, ...], depth: int) -> Iterator[str]:
    before = "["
    if len(value) > _ITEMS_A_PIECE:
        for begin in range(0, len(value), _ITEMS_A_PIECE):
            yield before + json.dumps(value[begin : begin + _ITEMS_A_PIECE])[1:-1]
            before = ", "
    else:
        for element in value:
            yield before
            yield from _pieces(element, depth + 1)
            before = ", "
    yield "]"


def _unwritable(value: Any, error: Exception) -> EnvironmentFailedError:
    return EnvironmentFailedError(
        f"Expected snapshot() to return bytes or what JSON can hold, got {type(value).__name__}: {error}"
    )
