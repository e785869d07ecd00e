"""Pictures are found in observations by how their files begin."""

from base64 import b64encode
from typing import Any

import pytest

from openenv.traces.pictures import pictures_in

FILES = {
    ".png": b"\x89PNG\r\n\x1a\n" + bytes(40),
    ".jpg": b"\xff\xd8\xff\xe0" + bytes(40),
    ".gif": b"GIF89a" + bytes(40),
    ".webp": b"RIFF\x00\x00\x00\x00WEBP" + bytes(40),
}


@pytest.mark.parametrize("suffix", FILES)
def test_a_picture_is_found_wherever_it_is(suffix: str) -> None:
    text = b64encode(FILES[suffix]).decode()
    shown: Any = {"screen": text, "seen": [{"url": f"data:image/any;base64,{text}"}, 1, None], "text": "a cat"}
    assert [(each.path, each.suffix, each.content) for each in pictures_in(shown)] == [
        ("observation.screen", suffix, FILES[suffix]),
        ("observation.seen.0.url", suffix, FILES[suffix]),
    ]


@pytest.mark.parametrize(
    "value",
    [
        "iVBORw0KGgo is how PNG begins in base64",
        "iVBORw0KGgo",
        b64encode(b"RIFF\x00\x00\x00\x00WAVE" + bytes(40)).decode(),
        [[0, 255]] * 100,
        None,
    ],
)
def test_what_is_none_is_not_found(value: Any) -> None:
    assert list(pictures_in(value)) == []
