"""Pictures drawn in a terminal, two pixels to a character."""

from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich_pixels import Pixels

_COLOURS = ("256", "truecolor")
_MAX_LINES = 24
_PIXELS_A_LINE = 2


def can_draw(console: Console) -> bool:
    """Return whether a console can draw pictures, in colours and with what ``openenv-core[pictures]`` installs."""
    return console.is_terminal and console.color_system in _COLOURS and find_spec("rich_pixels") is not None


def drawn(picture: bytes, columns: int) -> "Pixels | None":
    """Return a picture as lines of colours, made smaller to fit; ``None`` for a file that can't be read."""
    from PIL import Image
    from rich_pixels import Pixels

    try:
        with Image.open(BytesIO(picture)) as image:
            pixels = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None
    pixels.thumbnail((columns, _MAX_LINES * _PIXELS_A_LINE))
    drawing: Pixels = Pixels.from_image(pixels)
    return drawing
