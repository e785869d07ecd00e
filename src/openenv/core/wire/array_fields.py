"""Types of fields that hold an array or a file, which travel as bytes to clients that read them, else as JSON."""

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, SerializationInfo
from pydantic_core import CoreSchema, core_schema

from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.reader import ARRAY_KEYWORD
from openenv.core.wire.arrays import DTYPES, FILE, ArrayWriter, array_bytes

# Numbers of colours of a pixel: RGB, RGBA.
_COLOURS = (3, 4)


@dataclass(frozen=True)
class NDArray:
    """Type of a field that holds an array of NumPy, for ``Annotated``.

    A client on v1 receives its bytes, without JSON; every other one nested lists. Validation takes an array of this
    type and shape, or nested lists of numbers that the type holds.

    Args:
        dtype: Type of the numbers: ``bool``, ``int8`` to ``int64``, ``uint8`` to ``uint64``, or ``float16`` to
            ``float64``.
        shape: Its lengths; ``None`` for any.
        picture: Whether its numbers are the pixels of a picture, of the type ``uint8`` and the shape
            ``(height, width, 3)`` or ``(height, width, 4)``, as the schema then says.

    Raises:
        ConfigurationError: There is no such type, or no picture of this type and shape.

    Example:
        >>> import numpy as np
        >>> from typing import Annotated
        >>> from openenv import NDArray, Observation
        >>> class Screen(Observation):
        ...     pixels: Annotated[np.ndarray, NDArray("uint8", (84, 84, 3), picture=True)]
        >>> Screen(pixels=np.zeros((84, 84, 3), np.uint8)).pixels.shape
        (84, 84, 3)
    """

    dtype: str
    shape: tuple[int | None, ...]
    picture: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigurationError(f"Expected the type of an array, one of {', '.join(DTYPES)}; got {self.dtype!r}.")
        if not all(length is None or length >= 0 for length in self.shape):
            raise ConfigurationError(f"Expected lengths from 0, or None for any length; got {self.shape}.")
        if self.picture and (self.dtype != "uint8" or len(self.shape) != 3 or self.shape[2] not in _COLOURS):
            raise ConfigurationError(
                "Expected a picture of uint8 with the shape (height, width, 3) or (height, width, 4), "
                f"got {self.dtype} with the shape {self.shape}."
            )

    @property
    def keyword(self) -> dict[str, Any]:
        """The declaration of the array in a JSON Schema, for the keyword ``x-array``."""
        declared = {"dtype": self.dtype, "shape": [*self.shape]}
        return {**declared, "picture": True} if self.picture else declared

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return _json_field(self._validated, self._written)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = _number_schema(self.dtype)
        for length in reversed(self.shape):
            bounds = {} if length is None else {"minItems": length, "maxItems": length}
            schema = {"type": "array", "items": schema, **bounds}
        return {**schema, ARRAY_KEYWORD: self.keyword}

    def _validated(self, value: Any) -> Any:
        np = import_module("numpy")  # an extra, for environments with arrays

        if not isinstance(value, np.ndarray):
            value = self._from_lists(value, np)
        elif value.dtype != np.dtype(self.dtype):
            raise ValueError(f"expected an array of {self.dtype}, got {value.dtype}; convert it with astype")
        fits = len(value.shape) == len(self.shape) and all(
            expected in (None, length) for expected, length in zip(self.shape, value.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"expected an array of the shape {self.shape}, got {value.shape}")
        return value

    def _from_lists(self, value: Any, np: Any) -> Any:
        given = np.array(value)
        if given.size == 0:  # JSON has no lengths within an empty list
            return np.zeros([length or 0 for length in self.shape], self.dtype)
        try:
            with np.errstate(invalid="ignore", over="ignore"):
                array = given.astype(self.dtype)  # null becomes NaN
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"expected nested lists of {self.dtype}, got {value!r:.100}") from None
        is_number = given.dtype.kind in "biuf" or (given.dtype.kind == "O" and array.dtype.kind == "f")
        if not is_number or (array.dtype.kind in "biu" and not np.array_equal(array, given)):
            raise ValueError(f"expected nested lists of {self.dtype}, got {value!r:.100}")
        return array

    def _written(self, value: Any, info: SerializationInfo) -> Any:
        if isinstance(info.context, ArrayWriter):
            return info.context.add(self.dtype, value.shape, array_bytes(value))
        return value.tolist()


@dataclass(frozen=True)
class MediaType:
    r"""Type of a field that holds the bytes of a file, such as a screenshot, for ``Annotated``.

    A client on v1 receives the bytes; every other one base64. Validation takes bytes or base64.

    Args:
        name: The type of the file, such as ``image/png``.

    Example:
        >>> from typing import Annotated
        >>> from openenv import MediaType, Observation
        >>> class Page(Observation):
        ...     screenshot: Annotated[bytes, MediaType("image/png")]
        >>> Page(screenshot="iVBORw==").screenshot
        b'\x89PNG'
    """

    name: str

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return _json_field(self._validated, self._written)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "contentEncoding": "base64", "contentMediaType": self.name}

    def _validated(self, value: Any) -> bytes:
        if isinstance(value, str):
            try:
                return base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError) as error:
                raise ValueError(f"expected a file of the type {self.name} in base64: {error}") from None
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise ValueError(f"expected the bytes of a file of the type {self.name}, got {type(value).__name__}")

    def _written(self, value: bytes, info: SerializationInfo) -> Any:
        if isinstance(info.context, ArrayWriter):
            return info.context.add(FILE, (len(value),), value)
        return base64.b64encode(value).decode()


@dataclass(frozen=True)
class ArraysInside:
    """Mark of a field whose value is an array of NumPy, or has arrays in dicts, lists and tuples, for ``Annotated``.

    The arrays travel as those of ``NDArray``. A field without this mark, or ``NDArray``, is written as JSON.

    Args:
        picture: Whether the value is one array, whose numbers are the pixels of a picture.
    """

    picture: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        write = core_schema.plain_serializer_function_ser_schema(_with_arrays, info_arg=True, when_used="json")
        return cast("CoreSchema", {**schema, "serialization": write})


def holds_arrays(model: type[BaseModel]) -> bool:
    """Return whether a field of a model is declared as an array or a file, or a field of a model in it."""
    return _declares_arrays(model, set())


@cache
def pixel_fields_of(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields of a model that are declared as the pixels of a picture."""
    return frozenset(
        name
        for name, field in model.model_fields.items()
        if any(declared.picture for declared in _declared_arrays(field.annotation, *field.metadata))
    )


def _declared_arrays(*annotations: Any) -> Iterator[NDArray | ArraysInside]:
    """Yield the declarations of a field's own value: not of what is in a list, a dict or a model."""
    for annotation in annotations:
        if isinstance(annotation, NDArray | ArraysInside):
            yield annotation
        elif get_origin(annotation) in (Annotated, Union, UnionType):
            yield from _declared_arrays(*get_args(annotation), *getattr(annotation, "__metadata__", ()))


def _declares_arrays(annotation: Any, seen: set[Any]) -> bool:
    if isinstance(annotation, _DECLARATIONS):
        return True
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        inner = (*get_args(annotation), *getattr(annotation, "__metadata__", ()))
        return any(_declares_arrays(each, seen) for each in inner)
    if annotation in seen:
        return False
    seen.add(annotation)
    fields = annotation.model_fields.values()
    return any(_declares_arrays(each, seen) for field in fields for each in (field.annotation, *field.metadata))


_DECLARATIONS = (NDArray, MediaType, ArraysInside)


def _with_arrays(value: Any, info: SerializationInfo) -> Any:
    """Return the JSON of a value, with its arrays beside it where the context collects them."""
    if isinstance(value, dict):
        return {name: _with_arrays(inner, info) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_arrays(inner, info) for inner in value]
    dtype = getattr(value, "dtype", None)
    if dtype is None or not getattr(value, "shape", ()):
        return value
    if isinstance(info.context, ArrayWriter) and (name := _type_name(dtype)) in DTYPES:
        return info.context.add(name, value.shape, array_bytes(value))
    return value.tolist()


@lru_cache(maxsize=256)
def _type_name(dtype: Any) -> str:
    """Return the name of the type of an array's numbers, which NumPy makes anew each time."""
    name: str = dtype.name
    return name


def _json_field(validate: Callable[[Any], Any], write: Callable[[Any, SerializationInfo], Any]) -> CoreSchema:
    serialization = core_schema.plain_serializer_function_ser_schema(write, info_arg=True, when_used="json")
    return core_schema.no_info_plain_validator_function(validate, serialization=serialization)


def _number_schema(dtype: str) -> dict[str, Any]:
    if dtype == "bool":
        return {"type": "boolean"}
    if dtype.startswith("float"):
        return {"type": "number"}
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return {"type": "integer", "minimum": low, "maximum": high}
