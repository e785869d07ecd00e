"""What is found to be a picture in what an environment gives, and what is not."""

import base64
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from openenv.core.wire.media import portable, split
from openenv.core.wire.results import Picture, image_type, png_of

PIXELS = np.arange(9 * 8 * 3, dtype="uint8").reshape(9, 8, 3)
PNG = base64.b64encode(png_of(PIXELS)).decode()
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def opened(block: dict[str, Any]) -> Any:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(block["data"]))))


@pytest.mark.parametrize(
    "value",
    [
        IMAGE,
        PNG,
        f"data:image/png;base64,{PNG}",
        {"media_type": "image/png", "content": PNG},
    ],
    ids=["block", "base64", "data URL", "Picture"],
)
def test_pictures_in_json(value: Any) -> None:
    parts = split({"a": 1, "view": value})
    assert parts.value == {"a": 1, "view": "(image/png 1)"}
    (block,) = parts.blocks
    assert (opened(block) == PIXELS).all()


@pytest.mark.parametrize(
    "value",
    [
        "a text",
        "iVBORw0KGgo",
        "/9j/ is how it begins, and this is no base64, long as it is .................................",
        "UklGR" + "A" * 60,
        {"media_type": "image/svg+xml", "content": "<svg/>"},
        {"type": "image"},
        PIXELS.tolist(),
        [[1, 2, 3]] * 9,
        [[[0, 0, 256]] * 8] * 9,
        [[[0, 0, 0]] * 8] * 8 + [[[0, 0, 0]] * 7],
        [[[0.5, 0, 0]] * 8] * 9,
        [["abc"] * 8] * 9,
    ],
)
def test_what_is_no_picture_stays_what_it_is(value: Any) -> None:
    parts = split({"value": value})
    assert (parts.value, parts.blocks) == ({"value": value}, [])


def test_rows_of_numbers_are_a_picture_only_where_they_are_declared() -> None:
    cells = PIXELS.tolist()
    parts = split({"map": cells, "screen": cells, "text": "red"}, {"screen", "other"})
    assert parts.value == {"map": cells, "screen": "(image/png 1)", "text": "red"}
    (block,) = parts.blocks
    assert (opened(block) == PIXELS).all()


@pytest.mark.parametrize(
    "value", [None, "left", [], [[]], [[[0, 0, 256]]], [[[0, 0, 0]] * 2, [[0, 0, 0]]], [[[0] * 5]]]
)
def test_a_declared_picture_may_be_missing_or_wrong(value: Any) -> None:
    assert split({"screen": value}, {"screen"}).value == {"screen": value}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_other_json_is_not_changed(value: Any) -> None:
    assert split(value).value == value


def test_pictures_are_numbered_in_their_order() -> None:
    assert split([PNG, {"b": PNG}]).value == ["(image/png 1)", {"b": "(image/png 2)"}]


def test_what_a_tool_may_return() -> None:
    image = Image.fromarray(PIXELS)
    sliced = np.repeat(PIXELS, 2, axis=1)[:, ::2]
    for value in (
        png_of(PIXELS),
        bytearray(png_of(PIXELS)),
        PIXELS,
        sliced,
        image,
        Picture(media_type="image/png", content=PNG),
    ):
        assert (opened(portable(value)) == PIXELS).all()
    assert portable(("see", PIXELS)) == ["see", IMAGE]
    assert portable(b"a text") == "a text"
    assert portable(b"\xff\xfe")["resource"]["blob"] == "//4="
    for other in ("text", 1, None, {"a": b"b"}, [1, "two"], np.zeros(3), np.zeros((9, 8), "uint8")):
        assert portable(other) is other


def test_sound_is_no_image() -> None:
    assert image_type(b"RIFF\x00\x00\x00\x00WEBPVP8 ") == "image/webp"
    assert image_type(b"RIFF\x00\x00\x00\x00WAVEfmt ") is None
