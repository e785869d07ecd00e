"""Pictures as lines of colours, at most as large as there is room."""

from io import BytesIO, StringIO

import pytest
from PIL import Image
from rich.console import Console

from openenv.cli.views.drawing import can_draw, drawn


def png(width: int, height: int) -> bytes:
    file = BytesIO()
    Image.new("RGB", (width, height), (250, 0, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(("width", "height", "lines", "columns"), [(8, 4, 2, 8), (400, 10, 1, 40), (10, 960, 24, 1)])
def test_a_picture_is_made_smaller_to_fit(width: int, height: int, lines: int, columns: int) -> None:
    picture = drawn(png(width, height), 40)
    assert picture is not None
    written = StringIO()
    Console(file=written, width=40, color_system=None).print(picture)
    assert written.getvalue().split() == ["\N{LOWER HALF BLOCK}" * columns] * lines


@pytest.mark.parametrize("file", [b"GIF89a" + bytes(40), png(8, 8)[:50], b"\x89PNG\r\n\x1a\n" + bytes(40), b""])
def test_a_file_that_can_t_be_read_is_not_drawn(file: bytes) -> None:
    assert drawn(file, 40) is None


@pytest.mark.parametrize(
    ("is_terminal", "colours", "can"),
    [(True, "truecolor", True), (True, "256", True), (True, "standard", False), (False, "truecolor", False)],
)
def test_only_a_terminal_with_colours_shows_them(is_terminal: bool, colours: str, can: bool) -> None:
    console = Console(file=StringIO(), force_terminal=is_terminal, color_system=colours)  # type: ignore[arg-type]
    assert can_draw(console) is can
