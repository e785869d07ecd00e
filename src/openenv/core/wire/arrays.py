"""Arrays beside JSON: an array's bytes travel as they are, and the JSON says where they are.

In the JSON, ``{"$array": [dtype, shape, offset]}`` stands for an array: the name of its numbers' type, its lengths, and
where its bytes begin among those of all arrays of the message. The bytes are little-endian, in C order, and begin at a
multiple of 8; arrays follow each other in the order of the JSON. The type ``bytes`` stands for a file.

A binary frame of v1 holds parts, one after another, each with one message:

========  ==============================================================
bytes     content
========  ==============================================================
4         length of the JSON, an unsigned little-endian integer
4         length of the arrays, likewise
as said   the message as JSON, with spaces up to a multiple of 8 bytes
as said   the bytes of its arrays, with zeros up to a multiple of 8
========  ==============================================================

This module needs no NumPy; ``numpy_array`` imports it.
"""

import base64
import binascii
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic_core import to_json

from openenv.core.exceptions import InvalidAnswerError

KEY: Final = "$array"
"""Only key of the object that stands for an array in the JSON of a message."""

FILE: Final = "bytes"
"""Type of an array that stands for a file: its shape is the number of bytes."""

# Format of a number in the module ``struct``, and its size in bytes, by the name of its type.
_FORMATS: Mapping[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint8": ("B", 1),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "uint64": ("Q", 8),
    "float16": ("e", 2),
    "float32": ("f", 4),
    "float64": ("d", 8),
}

DTYPES: Final = tuple(_FORMATS)
"""Names of the types of numbers that an array may have."""

_ALIGNMENT = 8
_HEADER = struct.Struct("<II")
_MOST_BYTES = 2**32 - _ALIGNMENT
_MOST_DIMENSIONS = 32
_LONGEST_QUOTE = 100
_INTEGERS = frozenset((int,))
# Bytes after which no further message is added to a binary frame: eight pictures of 84x84x4 bytes are one frame.
_FULL_FRAME = 256 * 1024

_PLACEHOLDER = re.compile(r'\{"\$array":\["(\w+)",\[([\d,]*)\],(\d+)\]\}')
_PORTABLE = re.compile(r'\{"\$array":\["(\w+)",\[([\d,]*)\],"([\w+/=]*)"\]\}', re.ASCII)


@dataclass(slots=True, frozen=True)
class ArrayJson:
    """JSON of a message, or of a part of one, whose arrays are beside it.

    Attributes:
        text: The JSON, in which an object with the key ``$array`` stands for each array.
        buffers: The bytes of the arrays.

    ``len`` is the number of characters and bytes of both.
    """

    text: str
    buffers: bytes

    def __len__(self) -> int:
        return len(self.text) + len(self.buffers)

    def __hash__(self) -> int:
        """Return a hash that is quick for pictures: Python's own of bytes takes twice as long."""
        return hash((self.text, zlib.adler32(self.buffers)))

    @classmethod
    def checked(cls, text: str, buffers: bytes) -> "ArrayJson":
        """Return JSON and arrays that another process has written.

        Raises:
            InvalidAnswerError: An array in the text has an invalid type or shape, or its bytes are not in the buffers.
        """
        reader = _ArrayReader(memoryview(buffers), lambda *_: None)
        for dtype, shape, offset in _PLACEHOLDER.findall(text):
            reader.read({KEY: [dtype, list(_shape_of(shape)), int(offset)]})
        return cls(text, buffers)

    def nested(self) -> str:
        """Return the JSON with nested lists in place of arrays, and base64 in place of files."""
        return _PLACEHOLDER.sub(self._nested, self.text)

    def portable(self) -> str:
        """Return JSON alone that holds the same, with base64 in place of an array's offset; see ``from_portable``."""
        return _PLACEHOLDER.sub(self._portable, self.text)

    def _nested(self, found: re.Match[str]) -> str:
        dtype, shape, data = self._found(found)
        if dtype == FILE:
            return f'"{base64.b64encode(data).decode()}"'
        return _json_of(nested_lists(dtype, shape, data))

    def _portable(self, found: re.Match[str]) -> str:
        dtype, _, data = self._found(found)
        return f'{{"{KEY}":["{dtype}",[{found[2]}],"{base64.b64encode(data).decode()}"]}}'

    def _found(self, found: re.Match[str]) -> tuple[str, tuple[int, ...], memoryview]:
        dtype, shape, offset = found[1], _shape_of(found[2]), int(found[3])
        return dtype, shape, memoryview(self.buffers)[offset : offset + _size(dtype, shape)]


Written: TypeAlias = str | ArrayJson
"""JSON as text, or with its arrays beside it."""

WRITTEN: Final = (str, ArrayJson)
"""The classes of ``Written``, for ``isinstance``."""


def nested(written: Written) -> str:
    """Return JSON alone, with nested lists in place of arrays."""
    return written if isinstance(written, str) else written.nested()


def byte_size(written: Written) -> int:
    """Return the length of a message in bytes of UTF-8, those of its arrays included."""
    return len(written.encode()) if isinstance(written, str) else len(written.text.encode()) + len(written.buffers)


def portable(written: Written) -> str:
    """Return JSON alone, from which ``from_portable`` makes the same again."""
    return written if isinstance(written, str) else written.portable()


def from_portable(text: str) -> Written:
    """Return what ``portable`` made a text of.

    Args:
        text: JSON; without arrays in the portable form it is returned unchanged.
    """
    if _PORTABLE.search(text) is None:
        return text
    writer = ArrayWriter()
    try:
        return writer.finished(_PORTABLE.sub(lambda found: _json_of(_added(writer, found)), text)) or text
    except (binascii.Error, ValueError):  # data of an environment that look like an array
        return text


class ArrayWriter:
    """Collects the arrays of a JSON text while the text is written; the ``context`` of pydantic's serializers.

    Fields of the type ``NDArray`` or ``MediaType`` add their values; all other values are JSON.
    """

    __slots__ = ("_count", "_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0
        self._size = 0

    def add(self, dtype: str, shape: Iterable[int], data: bytes) -> dict[str, Any]:
        """Add an array.

        Args:
            dtype: Name of the type of its numbers.
            shape: Its lengths.
            data: Its bytes, little-endian and in C order.

        Returns:
            What stands for it in the JSON.

        Raises:
            ValueError: The arrays have more than 4 GiB together.
        """
        offset = self._size
        padding = -len(data) % _ALIGNMENT
        self._count += 1
        self._size += len(data) + padding
        if self._size > _MOST_BYTES:
            raise ValueError(f"the arrays of a message have {self._size} bytes; expected less than 4 GiB")
        self._parts.append(data)
        if padding:
            self._parts.append(bytes(padding))
        return {KEY: [dtype, [*shape], offset]}

    def finished(self, text: str) -> Written | None:
        """Return the text with the arrays that were added, and begin again for the next text.

        Returns:
            JSON; ``None`` if the text cannot be read with arrays, because it holds the key ``$array`` itself.
        """
        if not self._count:
            return text
        parts, count = self._parts, self._count
        self.discard()
        if text.count(f'"{KEY}"') != count:
            return None
        return ArrayJson(text, parts[0] if len(parts) == 1 else b"".join(parts))

    def discard(self) -> None:
        """Remove the arrays that were added, and begin again: the text could not be written."""
        self._parts, self._count, self._size = [], 0, 0


def nested_lists(dtype: str, shape: tuple[int, ...], data: bytes | memoryview) -> Any:
    """Return an array as nested lists of numbers.

    Args:
        dtype: Name of the type of its numbers.
        shape: Its lengths.
        data: Its bytes.

    Example:
        >>> nested_lists("uint8", (2, 2), bytes([1, 2, 3, 4]))
        [[1, 2], [3, 4]]
    """
    kind, _ = _FORMATS[dtype]
    values: list[Any] = list(struct.unpack(f"<{prod(shape)}{kind}", data))
    if not shape:
        return values[0]
    for axis in range(len(shape) - 1, 0, -1):
        length, count = shape[axis], prod(shape[:axis])
        values = [values[start * length : (start + 1) * length] for start in range(count)]
    return values


def numpy_array(dtype: str, shape: tuple[int, ...], data: memoryview) -> Any:
    """Return an array of NumPy that is backed by the bytes and can't be written to; the ``bytes`` of a file.

    Args:
        dtype: Name of the type of its numbers; ``bytes`` for a file.
        shape: Its lengths.
        data: Its bytes.
    """
    if dtype == FILE:
        return bytes(data)
    np = _numpy()
    return np.frombuffer(data, _numpy_type(dtype)).reshape(shape)


@cache
def _numpy() -> Any:
    return import_module("numpy")  # an extra, for those who receive arrays


@cache
def _numpy_type(dtype: str) -> Any:
    return _numpy().dtype(dtype).newbyteorder("<")


def array_bytes(array: Any) -> bytes:
    """Return the bytes of an array of NumPy, little-endian and in C order."""
    order = array.dtype.byteorder
    if order == ">" or (order == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    data: bytes = array.tobytes()
    return data


# --- Frames ----------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Part of a binary frame.

    Attributes:
        json: The message as JSON.
        buffers: The bytes of its arrays.
    """

    json: memoryview
    buffers: memoryview


MakeArray = Callable[[str, tuple[int, ...], memoryview], Any]
"""Makes a value of an array's type, shape and bytes, such as ``numpy_array``."""


def binary_frames(messages: Iterable[ArrayJson]) -> Iterator[bytes]:
    """Join messages with arrays into frames.

    Args:
        messages: The messages, in order.

    Returns:
        Binary frames, of some 256 KiB unless a message is longer.
    """
    parts: list[bytes] = []
    size = 0
    for message in messages:
        text = message.text.encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        parts += (_HEADER.pack(len(text), len(message.buffers)), text, message.buffers)
        size += len(text) + len(message.buffers)
        if size >= _FULL_FRAME:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def parts_of(frame: bytes) -> list[Part]:
    """Return the parts of a binary frame, which refer to its bytes.

    Raises:
        InvalidAnswerError: A part is longer than the frame.
    """
    view = memoryview(frame)
    parts, position = [], 0
    while position < len(view):
        rest = len(view) - position
        if rest < _HEADER.size:
            raise InvalidAnswerError(f"Expected a part's two lengths in {_HEADER.size} bytes, got {rest} bytes.")
        text, buffers = _HEADER.unpack_from(view, position)
        if _HEADER.size + text + buffers > rest:
            raise InvalidAnswerError(
                f"Expected a part of at most {rest} bytes, the rest of its frame, got lengths of {text} bytes of JSON "
                f"and {buffers} bytes of arrays."
            )
        begin = position + _HEADER.size
        middle, position = begin + text, begin + text + buffers
        parts.append(Part(view[begin:middle], view[middle:position]))
    return parts


def with_arrays(document: Any, buffers: memoryview, make_array: MakeArray) -> Any:
    """Put arrays into a message in place of what stands for them; nothing is allocated before it is checked.

    Args:
        document: The message, read from JSON; it is changed.
        buffers: The bytes of its arrays.
        make_array: Makes the value of an array.

    Raises:
        InvalidAnswerError: An array has a type that does not exist, an invalid shape, or bytes that are outside of the
            buffers or belong to another array.
    """
    return _ArrayReader(buffers, make_array).read(document)


class _ArrayReader:
    """Reads the arrays of one message.

    Args:
        buffers: Their bytes.
        make_array: Makes the value of an array.
    """

    def __init__(self, buffers: memoryview, make_array: MakeArray) -> None:
        self._buffers = buffers
        self._make_array = make_array
        self._end = 0

    def read(self, value: Any) -> Any:
        """Return a JSON value with its arrays."""
        if type(value) is dict:
            if len(value) == 1 and KEY in value:
                return self._array(value[KEY])
            for name, inner in value.items():
                if type(inner) in (dict, list):
                    value[name] = self.read(inner)
        elif type(value) is list:
            for index, inner in enumerate(value):
                if type(inner) in (dict, list):
                    value[index] = self.read(inner)
        return value

    def _array(self, header: Any) -> Any:
        match header:
            case [str() as dtype, list() as lengths, int() as offset] if type(offset) is int:
                if not _INTEGERS.issuperset(map(type, lengths)):
                    raise _shape_error(dtype, lengths)
                shape, size = _layout(dtype, *lengths)
            case _:
                raise InvalidAnswerError(f"Expected [dtype, shape, offset] of an array, got {_quoted(header)}.")
        end = offset + size
        if offset < self._end or end > len(self._buffers):
            raise InvalidAnswerError(
                f"Expected the bytes of an array between {self._end} and {len(self._buffers)}, the end of the array "
                f"before it and of all arrays; got {offset} to {end} for {_quoted(header)}."
            )
        self._end = end
        return self._make_array(dtype, shape, self._buffers[offset:end])


@lru_cache(maxsize=256)
def _layout(dtype: str, *lengths: int) -> tuple[tuple[int, ...], int]:
    """Return the shape of an array and its size in bytes; cached, since most arrays of a session have one shape.

    Raises:
        InvalidAnswerError: There is no such type or no such shape.
    """
    if dtype != FILE and dtype not in _FORMATS:
        raise InvalidAnswerError(
            f"Expected the type of an array, one of {', '.join(DTYPES)}, {FILE}; got {dtype:.100}."
        )
    is_valid = len(lengths) <= _dimensions(dtype) and all(length >= 0 for length in lengths)
    # Of an array without numbers, too, since a library that multiplies the lengths may not hold the product.
    if not is_valid or _size(dtype, [max(length, 1) for length in lengths]) > _MOST_BYTES:
        raise _shape_error(dtype, [*lengths])
    return lengths, _size(dtype, lengths)


def _shape_error(dtype: str, lengths: list[Any]) -> InvalidAnswerError:
    return InvalidAnswerError(
        f"Expected the shape of an array, at most {_dimensions(dtype)} lengths from 0, of less than 4 GiB; "
        f"got {_quoted(lengths)} of {dtype:.100}."
    )


def _dimensions(dtype: str) -> int:
    return 1 if dtype == FILE else _MOST_DIMENSIONS


def _size(dtype: str, shape: Iterable[int]) -> int:
    return prod(shape) * (1 if dtype == FILE else _FORMATS[dtype][1])


def _shape_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def _added(writer: ArrayWriter, found: re.Match[str]) -> dict[str, Any]:
    dtype, shape = found[1], _shape_of(found[2])
    data = base64.b64decode(found[3], validate=True)
    if (dtype != FILE and dtype not in _FORMATS) or len(data) != _size(dtype, shape):
        raise ValueError("no array")
    return writer.add(dtype, shape, data)


def _json_of(value: Any) -> str:
    return to_json(value, inf_nan_mode="null").decode()


def _quoted(value: Any) -> str:
    return f"{value!r:.{_LONGEST_QUOTE}}"
