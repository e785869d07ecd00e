"""Fields that hold an array or a file: what they take, how they are written, what their schema says."""

from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError
from tests.support.environments.pictured import FILE, View, view

from openenv import MediaType, NDArray, Observation
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.answers import observation_json, written_observation
from openenv.core.wire.array_fields import ArraysInside, holds_arrays
from openenv.core.wire.arrays import ArrayJson, ArrayWriter, nested


class Numbers(BaseModel):
    values: Annotated[Any, NDArray("int16", (2, None))]


class Reals(BaseModel):
    values: Annotated[Any, NDArray("float32", (2,))]


class Mixed(Observation):
    anything: Annotated[Any, ArraysInside()]


def test_nested_lists_become_an_array_of_the_declared_type() -> None:
    values = Numbers(values=[[1, 2], [3, 4]]).values
    assert values.dtype == np.int16
    assert values.tolist() == [[1, 2], [3, 4]]
    assert np.isnan(Reals(values=[None, 1]).values[0])


def test_an_empty_list_has_the_declared_lengths() -> None:
    class Rows(BaseModel):
        rows: Annotated[Any, NDArray("uint8", (None, 4))]

    assert Rows(rows=[]).rows.shape == (0, 4)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 2), np.int64), "expected an array of int16, got int64"),
        (np.zeros((3, 2), np.int16), r"expected an array of the shape \(2, None\), got \(3, 2\)"),
        ([[1, 2], [3]], "inhomogeneous"),
        ([[1.5], [2]], "expected nested lists of int16"),
        ([[2**15], [0]], "expected nested lists of int16"),
        ([["1"], ["2"]], "expected nested lists of int16"),
        ([[None], [1]], "expected nested lists of int16"),
        ("text", "expected nested lists of int16"),
        ({"a": 1}, "expected nested lists of int16"),
        (7, "expected an array of the shape"),
    ],
)
def test_other_values_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Numbers(values=value)


@pytest.mark.parametrize(
    "declared",
    [
        lambda: NDArray("complex64", (1,)),
        lambda: NDArray("uint8", (-1,)),
        lambda: NDArray("int16", (8, 8, 3), picture=True),
        lambda: NDArray("uint8", (8, 8), picture=True),
        lambda: NDArray("uint8", (8, 8, 2), picture=True),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declared: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^Expected"):
        declared()


def test_a_schema_describes_the_lists_and_declares_the_array() -> None:
    schema = View.model_json_schema()["properties"]
    assert schema["pixels"]["x-array"] == {"dtype": "uint8", "shape": [None, 4, 3], "picture": True}
    assert schema["pixels"]["items"]["items"] == {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": 255},
        "minItems": 3,
        "maxItems": 3,
    }
    assert schema["depth"]["items"] == {"type": "number"}
    assert (schema["file"]["contentEncoding"], schema["file"]["contentMediaType"]) == ("base64", "image/png")


def test_json_has_lists_and_base64_and_python_the_values() -> None:
    shown = view(7)
    assert '"pixels":[[[7,7,7]' in shown.model_dump_json()
    assert View.model_validate_json(shown.model_dump_json()).file == FILE
    assert shown.model_dump()["pixels"] is shown.pixels


def test_arrays_are_beside_the_json_where_they_are_collected() -> None:
    shown = view(7)
    found = written_observation(shown, ArrayWriter())
    assert isinstance(found, ArrayJson)
    assert nested(found) == observation_json(shown)
    assert len(found.buffers) == 24 + 16 + 24


def test_data_with_the_key_of_arrays_are_sent_as_nested_lists() -> None:
    shown = view(7, {"$array": ["uint8", [1], 0]})
    assert written_observation(shown, ArrayWriter()) == observation_json(shown)


def test_a_value_that_can_not_be_written_leaves_no_arrays_behind() -> None:
    writer = ArrayWriter()
    with pytest.raises(ValueError, match="serialize"):
        written_observation(view(7, object()), writer)
    assert writer.finished("{}") == "{}"


def test_arrays_within_other_values_are_written_alike() -> None:
    mixed = Mixed(anything={"seen": [np.arange(3, dtype=np.uint8), {"at": 1}], "far": np.float32(2)})
    found = written_observation(mixed, ArrayWriter())
    assert isinstance(found, ArrayJson)
    assert nested(found) == '{"metadata":{},"anything":{"seen":[[0,1,2],{"at":1}],"far":2.0}}'


def test_a_model_says_whether_it_holds_arrays() -> None:
    class Outer(BaseModel):
        inner: list[Numbers] | None = None
        again: "Outer | None" = None

    class File(BaseModel):
        files: list[Annotated[bytes, MediaType("text/csv")]]

    assert holds_arrays(Outer)
    assert holds_arrays(File)
    assert holds_arrays(Mixed)
    assert not holds_arrays(Observation)


def test_a_file_is_bytes_or_base64() -> None:
    assert view(1).model_copy(update={"file": b"x"}).file == b"x"
    with pytest.raises(ValidationError, match="in base64"):
        View.model_validate({**view(1).model_dump(), "file": "no base64"})
    with pytest.raises(ValidationError, match="got int"):
        View.model_validate({**view(1).model_dump(), "file": 3})
