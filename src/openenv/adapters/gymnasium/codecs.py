"""Values of Gymnasium spaces as JSON and back.

A codec has a space. It writes values of the space as the JSON that the wire carries, and reads them from it. The codecs
here do no checking that the server does anyway: an action outside of its space goes out as it is and is refused there.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from string import ascii_letters, digits, punctuation
from typing import Any, cast

import numpy as np
from gymnasium import Space, spaces
from gymnasium.error import InvalidAction

from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.arrays import DTYPES

__all__ = [
    "ArrayCodec",
    "BinaryCodec",
    "Choices",
    "Codec",
    "DiscreteCodec",
    "FieldCodec",
    "FieldsCodec",
    "JsonText",
    "MultiDiscreteCodec",
    "TextCodec",
    "TupleCodec",
    "codec_for_space",
]

# Numbers of an array from which its bytes cost less than JSON, on both sides together.
_FEWEST_OF_ARRAY = 64

Values = Sequence[Any]
"""The JSON values that a choice stands for, in the order of its numbers: a tuple, or a range."""


class Codec(ABC):
    """Values of one space as JSON and back.

    Attributes:
        space: The space.
        has_arrays: Whether a value that is written has arrays of NumPy, which travel as bytes to clients that read them
            and as nested lists to others.
    """

    space: Space[Any]
    has_arrays: bool = False

    @abstractmethod
    def encode(self, value: Any) -> Any:
        """Write a value of the space as JSON."""

    @abstractmethod
    def decode(self, json: Any) -> Any:
        """Read a value of the space from JSON.

        Raises:
            KeyError: A field is missing.
            TypeError: It is something else than what the space was made for.
            ValueError: It is not in the space.
        """


class Choices:
    """A finite number of JSON values, numbered from zero.

    Example:
        >>> choices = Choices(("left", "stay", "right"))
        >>> choices.value(2), choices.number("left"), len(choices)
        ('right', 0, 3)
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        # 1, 1.0 and True are different values in JSON, but one key in a dict. A range needs no table.
        self._numbers = (
            None if isinstance(values, range) else {(type(value), value): i for i, value in enumerate(values)}
        )

    def __len__(self) -> int:
        return len(self._values)

    def value(self, number: Any) -> Any:
        """Return the value with a number.

        Raises:
            InvalidAction: There is none.
        """
        if 0 <= number < len(self._values):
            return self._values[int(number)]
        raise InvalidAction(f"Expected a number from 0 to {len(self._values) - 1}, got {number}.")

    def number(self, value: Any) -> int:
        """Return the number of a value.

        Raises:
            ValueError: It is none of them.
        """
        if self._numbers is not None:
            number = self._numbers.get((type(value), value))
        else:
            number = self._values.index(value) if type(value) is int and value in self._values else None
        if number is None:
            raise ValueError(f"expected one of {self._values!r:.200}, got {value!r:.100}")
        return number


class DiscreteCodec(Codec):
    """A value of a finite number of them, as its number."""

    def __init__(self, values: Values, start: int = 0, dtype: Any = np.int64) -> None:
        self.space = spaces.Discrete(len(values), start=start, dtype=dtype)
        self._number_type = np.dtype(dtype).type
        self._choices = Choices(values)
        self._start = start

    def encode(self, value: Any) -> Any:
        """Return the value that a number stands for."""
        return self._choices.value(value - self._start)

    def decode(self, json: Any) -> np.integer[Any]:
        """Return the number of a value."""
        number: np.integer[Any] = self._number_type(self._choices.number(json) + self._start)
        return number


class MultiDiscreteCodec(Codec):
    """An array whose items are values of a finite number each, as the items' numbers.

    Args:
        values: The values of each item, in the array's order.
        shape: The array's shape.
        start: The number of each item's first value.
        dtype: The type of the numbers.
    """

    def __init__(
        self,
        values: Sequence[Values],
        shape: tuple[int, ...],
        start: Sequence[int] | None = None,
        dtype: Any = np.int64,
    ) -> None:
        self._shape = shape
        self._choices = [Choices(choice) for choice in values]
        self._start = np.zeros(shape, dtype) if start is None else np.reshape(np.asarray(start, dtype), shape)
        sizes = np.array([len(choice) for choice in values], dtype).reshape(shape)
        self.space = spaces.MultiDiscrete(sizes, dtype, start=self._start)

    def encode(self, value: Any) -> Any:
        """Return the values as nested lists."""
        numbers = (np.asarray(value) - self._start).ravel().tolist()
        values = [choices.value(number) for choices, number in zip(self._choices, numbers, strict=True)]
        return nested(values, self._shape)

    def decode(self, json: Any) -> np.ndarray[Any, Any]:
        """Return the numbers as an array."""
        values = flattened(json, self._shape)
        numbers = [choices.number(value) for choices, value in zip(self._choices, values, strict=True)]
        return np.array(numbers, self._start.dtype).reshape(self._shape) + self._start


class ArrayCodec(Codec):
    """Numbers: an array of NumPy; of few numbers nested lists, or a single number where the space's shape is ``()``."""

    def __init__(self, space: spaces.Box) -> None:
        self.space = space
        self._shape, self._dtype = space.shape, space.dtype
        self.has_arrays = prod(space.shape) >= _FEWEST_OF_ARRAY and space.dtype.name in DTYPES

    def encode(self, value: Any) -> Any:
        """Return the array, or nested lists of Python's numbers."""
        array = np.asarray(value, self._dtype)
        return array if self.has_arrays else array.tolist()

    def decode(self, json: Any) -> np.ndarray[Any, Any]:
        """Return an array of the space's type; an array that was received is not copied."""
        is_array = isinstance(json, np.ndarray) and json.dtype == self._dtype
        array = json if is_array else _numbers(json, self._dtype)
        if array.shape != self._shape:
            raise ValueError(f"expected numbers of the shape {self._shape}, got {array.shape}")
        return array


class BinaryCodec(Codec):
    """Flags, as nested lists of ``true`` and ``false``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.space = spaces.MultiBinary(shape)
        self._shape = shape

    def encode(self, value: Any) -> Any:
        """Return nested lists of flags."""
        return np.asarray(value, np.bool_).tolist()

    def decode(self, json: Any) -> np.ndarray[Any, np.dtype[np.int8]]:
        """Return an array of zeros and ones."""
        array = np.array(json, np.bool_)
        if array.shape != self._shape:
            raise ValueError(f"expected flags of the shape {self._shape}, got {array.shape}")
        return array.astype(np.int8)


class JsonText(spaces.Text):
    """Text of any characters, which ``gymnasium.spaces.Text`` must have listed one by one."""

    LONGEST_SAMPLE = 64

    def __init__(self, min_length: int = 0, max_length: int | None = None) -> None:
        self.is_limited = max_length is not None
        longest = min_length + self.LONGEST_SAMPLE if max_length is None else max_length
        super().__init__(longest, min_length=min_length, charset=ascii_letters + digits + punctuation + " ")

    def contains(self, x: Any) -> bool:
        """Return whether something is a text of this length."""
        return isinstance(x, str) and self.min_length <= len(x) and (not self.is_limited or len(x) <= self.max_length)

    def __eq__(self, other: object, /) -> bool:
        """Return whether another space has the same texts."""
        return isinstance(other, JsonText) and self.is_limited == other.is_limited and super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as every space, it changes when it samples


class TextCodec(Codec):
    """Text, as it is."""

    def __init__(self, space: spaces.Text) -> None:
        self.space = space

    def encode(self, value: Any) -> str:
        """Return the text."""
        return str(value)

    def decode(self, json: Any) -> str:
        """Return the text."""
        if not isinstance(json, str):
            raise TypeError(f"expected text, got {json!r:.100}")
        return json


class FieldsCodec(Codec):
    """Several fields, each with its space."""

    def __init__(self, codecs: Mapping[str, Codec]) -> None:
        self.space = spaces.Dict({name: codec.space for name, codec in codecs.items()})
        self.has_arrays = any(codec.has_arrays for codec in codecs.values())
        self._codecs = dict(codecs)

    def encode(self, value: Any) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {name: codec.encode(value[name]) for name, codec in self._codecs.items()}

    def decode(self, json: Any) -> dict[str, Any]:
        """Return the fields' values."""
        return {name: codec.decode(json[name]) for name, codec in self._codecs.items()}


class TupleCodec(Codec):
    """Several values in order, each with its space, as a list."""

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self.space = spaces.Tuple([codec.space for codec in codecs])
        self.has_arrays = any(codec.has_arrays for codec in codecs)
        self._codecs = list(codecs)

    def encode(self, value: Any) -> list[Any]:
        """Return the values as a list."""
        return [codec.encode(part) for codec, part in zip(self._codecs, value, strict=True)]

    def decode(self, json: Any) -> tuple[Any, ...]:
        """Return the values as a tuple."""
        return tuple(codec.decode(part) for codec, part in zip(self._codecs, json, strict=True))


class FieldCodec(Codec):
    """The only field of an action or observation, without the dict around it."""

    def __init__(self, name: str, codec: Codec) -> None:
        self.space = codec.space
        self.has_arrays = codec.has_arrays
        self._name = name
        self._codec = codec

    def encode(self, value: Any) -> dict[str, Any]:
        """Return the field as JSON, under its name."""
        return {self._name: self._codec.encode(value)}

    def decode(self, json: Any) -> Any:
        """Return the field's value."""
        return self._codec.decode(json[self._name])


def codec_for_space(space: Space[Any]) -> Codec:
    """Make the codec that takes values as they are: the number 3 of a ``Discrete`` space is 3 on the wire.

    Raises:
        ConfigurationError: It is of a kind that has no such form.
    """
    codec = _codec_of_kind(space)
    codec.space = space
    return codec


def _codec_of_kind(space: Space[Any]) -> Codec:
    match space:
        case spaces.Box():
            return ArrayCodec(space)
        case spaces.Discrete():
            first = int(space.start)
            return DiscreteCodec(range(first, first + int(space.n)), first, space.dtype)
        case spaces.MultiDiscrete():
            starts = space.start.ravel().tolist()
            sizes = space.nvec.ravel().tolist()
            values = [range(first, first + size) for first, size in zip(starts, sizes, strict=True)]
            return MultiDiscreteCodec(values, space.shape, starts, space.dtype)
        case spaces.MultiBinary():
            return BinaryCodec(space.shape)
        case spaces.Text():
            return TextCodec(space)
        case spaces.Dict():
            return FieldsCodec({name: codec_for_space(part) for name, part in space.items()})
        case spaces.Tuple():
            return TupleCodec([codec_for_space(part) for part in space])
    raise ConfigurationError(
        f"Expected a Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict or Tuple space, got {space}. "
        "For any other, pass a converter as well: encode_action or decode_observation."
    )


def _numbers(json: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Make an array of numbers, which NumPy would read from text too, and cut off where the type has no fractions."""
    given = np.array(json)
    if given.dtype.kind in "US":
        raise TypeError(f"expected numbers, got {json!r:.100}")
    if given.dtype.kind == "O":  # null, which stands for NaN, or integers that only Python holds
        return np.array(json, dtype)
    with np.errstate(invalid="ignore", over="ignore"):  # what the type can't hold turns out different, or infinite
        array = given.astype(dtype)
    if array.dtype.kind in "iu" and not np.array_equal(array, given):
        raise ValueError(f"expected whole numbers of the type {array.dtype}, got {json!r:.100}")
    return array


def nested(values: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Lay out values as nested lists.

    Example:
        >>> nested([1, 2, 3, 4, 5, 6], (3, 2))
        [[1, 2], [3, 4], [5, 6]]
    """
    array = np.empty(len(values), object)
    array[:] = values
    return cast("list[Any]", array.reshape(shape).tolist())


def flattened(lists: Any, shape: tuple[int, ...]) -> list[Any]:
    """Take the values out of nested lists.

    Raises:
        ValueError: The lists have another shape.

    Example:
        >>> flattened([[1, 2], [3, 4], [5, 6]], (3, 2))
        [1, 2, 3, 4, 5, 6]
    """
    values = [lists]
    for length in shape:
        for part in values:
            if not isinstance(part, list | tuple) or len(part) != length:
                raise ValueError(f"expected lists of the shape {shape}, got {lists!r:.100}")
        values = [item for part in values for item in part]
    return values
