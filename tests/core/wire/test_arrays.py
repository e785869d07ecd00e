"""Arrays beside JSON: what is written is read again, and a frame that lies is an error."""

import json
import struct
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openenv.core.exceptions import InvalidAnswerError
from openenv.core.wire.arrays import (
    DTYPES,
    ArrayJson,
    ArrayWriter,
    array_bytes,
    binary_frames,
    byte_size,
    from_portable,
    nested,
    nested_lists,
    numpy_array,
    parts_of,
    portable,
    with_arrays,
)

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda name: hnp.arrays(np.dtype(name), SHAPES))


def written(**arrays: Any) -> ArrayJson:
    writer = ArrayWriter()
    fields = {name: writer.add(each.dtype.name, each.shape, array_bytes(each)) for name, each in arrays.items()}
    found = writer.finished(json.dumps(fields, separators=(",", ":")))
    assert isinstance(found, ArrayJson)
    return found


def read(frame: bytes) -> list[Any]:
    return [with_arrays(json.loads(bytes(part.json)), part.buffers, numpy_array) for part in parts_of(frame)]


def part(document: Any, buffers: bytes = b"", *, lengths: tuple[int, int] | None = None) -> bytes:
    text = json.dumps(document).encode()
    return struct.pack("<II", *(lengths or (len(text), len(buffers)))) + text + buffers


@given(st.lists(st.dictionaries(st.text(max_size=4), ARRAYS, min_size=1, max_size=2), min_size=1, max_size=3))
def test_what_is_written_is_read_to_the_last_bit(messages: list[dict[str, Any]]) -> None:
    frames = list(binary_frames(written(**message) for message in messages))
    again = [message for frame in frames for message in read(frame)]
    assert len(frames) == 1
    for message, other in zip(messages, again, strict=True):
        assert list(message) == list(other)
        for name, array in message.items():
            assert other[name].dtype == array.dtype
            assert other[name].shape == array.shape
            assert other[name].tobytes() == array.tobytes()
            assert other[name].flags.aligned


@given(ARRAYS)
def test_the_journals_form_is_json_that_holds_the_same(array: Any) -> None:
    message = written(one=array, two=array)
    text = portable(message)
    json.loads(text)
    assert from_portable(text) == message


@given(ARRAYS)
def test_nested_lists_are_numpys(array: Any) -> None:
    lists = nested_lists(array.dtype.name, array.shape, array.tobytes())
    assert np.array_equal(np.array(lists, array.dtype).reshape(array.shape), array, equal_nan=array.dtype.kind == "f")
    if array.size:
        assert np.shape(lists) == array.shape


def test_arrays_become_nested_lists_and_files_base64_where_they_stand() -> None:
    writer = ArrayWriter()
    pixels = writer.add("uint8", (2, 2), bytes([1, 2, 3, 4]))
    file = writer.add("bytes", (3,), b"abc")
    number = writer.add("float32", (), struct.pack("<f", 0.5))
    found = writer.finished(json.dumps([pixels, file, number], separators=(",", ":")))
    assert found is not None
    assert nested(found) == '[[[1,2],[3,4]],"YWJj",0.5]'
    assert nested("{}") == portable("{}") == from_portable("{}") == "{}"
    assert byte_size(found) == byte_size(found.text) + 24 if isinstance(found, ArrayJson) else False


def test_what_is_not_finite_is_null_in_nested_lists() -> None:
    assert nested(written(depth=np.array([1, np.nan, np.inf], np.float16))) == '{"depth":[1.0,null,null]}'


def test_an_array_is_backed_by_the_frame_and_can_not_be_written_to() -> None:
    (frame,) = binary_frames([written(pixels=np.zeros((84, 84, 4), np.uint8))])
    (message,) = read(frame)
    assert np.shares_memory(message["pixels"], np.frombuffer(frame, np.uint8))
    assert not message["pixels"].flags.writeable


def test_eight_pictures_are_one_frame_and_many_are_several() -> None:
    picture = written(pixels=np.zeros((84, 84, 4), np.uint8))
    assert len(list(binary_frames([picture] * 8))) == 1
    frames = list(binary_frames([picture] * 100))
    assert len(frames) > 5
    assert sum(len(parts_of(frame)) for frame in frames) == 100


def test_a_text_with_the_key_of_its_own_is_not_read_with_arrays() -> None:
    writer = ArrayWriter()
    writer.add("uint8", (1,), b"1")
    assert writer.finished('{"a":{"$array":["uint8",[1],0]},"b":"$array"}') is None
    assert writer.finished('{"b":"$array"}') == '{"b":"$array"}'  # the next text has none


def test_discarded_arrays_are_not_in_the_next_text() -> None:
    writer = ArrayWriter()
    writer.add("uint8", (1,), b"1")
    writer.discard()
    assert writer.finished("{}") == "{}"


def test_a_text_that_only_looks_like_the_journals_form_stays_a_text() -> None:
    for text in (
        '{"$array":["uint8",[2],"AAA="]}',
        '{"$array":["uint8",[3],"AAA="]}',
        '{"$array":["uint8",[2],"A"]}',
        '{"$array":["word",[2],"AAA="]}',
    ):
        found = from_portable(text)
        assert found == text or portable(found) == text


LIES = {
    "a type that does not exist": ["float128", [1], 0],
    "no type": [None, [1], 0],
    "an offset outside of the arrays": ["uint8", [8], 16],
    "an offset past their end by one": ["uint8", [8], 9],
    "a negative offset": ["uint8", [1], -1],
    "an offset that is a flag": ["uint8", [1], True],
    "more than there is": ["uint8", [17], 0],
    "a negative length": ["uint8", [-1], 0],
    "two negative lengths": ["uint8", [-4, -4], 0],
    "a length that is no integer": ["uint8", [1.0], 0],
    "a product that overflows 64 bits": ["float64", [2**32, 2**32, 2**32], 0],
    "a product that overflows beside a length of 0": ["uint8", [0, 2**40, 2**40], 0],
    "4 GiB": ["uint8", [2**32], 0],
    "a length without end": ["uint8", [10**400], 0],
    "too many lengths": ["uint8", [1] * 33, 0],
    "a file with two lengths": ["bytes", [1, 1], 0],
    "too few entries": ["uint8", [1]],
    "an object": {"dtype": "uint8"},
}


@pytest.mark.parametrize("header", LIES.values(), ids=LIES)
def test_an_array_that_lies_is_a_clear_error(header: Any) -> None:
    made: list[Any] = []
    with pytest.raises(InvalidAnswerError, match=r"^Expected ") as error:
        with_arrays({"data": {"$array": header}}, memoryview(bytes(16)), lambda *array: made.append(array))
    assert len(str(error.value)) < 500
    assert made == []


def test_arrays_that_overlap_are_an_error() -> None:
    document = [{"$array": ["uint8", [8], 0]}, {"$array": ["uint8", [8], 7]}]
    with pytest.raises(InvalidAnswerError, match=r"between 8 and 16, .* got 7 to 15"):
        with_arrays(document, memoryview(bytes(16)), numpy_array)


@pytest.mark.parametrize(
    "frame",
    [
        b"\0",
        part({}, lengths=(2**32 - 1, 2**32 - 1)),
        part({}, lengths=(2, 1)),
        part({}) + part({}, lengths=(3, 0)),
        part({}) + b"1234567",
    ],
)
def test_lengths_that_lie_are_an_error_of_the_frame(frame: bytes) -> None:
    with pytest.raises(InvalidAnswerError, match=r"^Expected a part"):
        parts_of(frame)


def test_an_array_of_another_process_is_checked() -> None:
    good = written(pixels=np.zeros((2, 2), np.uint8))
    assert ArrayJson.checked(good.text, good.buffers) == good
    with pytest.raises(InvalidAnswerError):
        ArrayJson.checked(good.text, good.buffers[:3])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("$array") | st.text(max_size=3), inner),
    max_leaves=8,
)
HEADERS = st.tuples(st.sampled_from([*DTYPES, "bytes", "int"]), st.lists(st.integers(-1, 9), max_size=3), st.integers())


@given(JSON | HEADERS.map(lambda header: {"$array": [header[0], header[1], header[2]]}), st.binary(max_size=64))
@example({"$array": ["uint8", [2**63 - 1, 2], 0]}, b"")
def test_any_document_is_read_or_refused(document: Any, buffers: bytes) -> None:
    seen: list[int] = []

    def make(dtype: str, shape: tuple[int, ...], data: memoryview) -> str:
        size = 1 if dtype == "bytes" else np.dtype(dtype).itemsize
        assert len(data) == prod(shape) * size
        seen.append(len(data))
        return "array"

    try:
        with_arrays(document, memoryview(buffers), make)
    except InvalidAnswerError:
        return
    assert sum(seen) <= len(buffers)


@given(st.binary(max_size=80))
def test_any_frame_is_read_or_refused(frame: bytes) -> None:
    try:
        parts = parts_of(frame)
    except InvalidAnswerError:
        return
    assert sum(len(each.json) + len(each.buffers) + 8 for each in parts) == len(frame)
