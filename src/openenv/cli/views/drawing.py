"""Pictures drawn in a terminal, two pixels to a character."""

from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich_pixels import Pixels

_COLOURS = ("256", "truecolor")
_MOST_LINES = 24
_PIXELS_A_LINE = 2


def can_draw(console: Console) -> bool:
    """Return whether pictures can be drawn: on a terminal with colours, where ``openenv-core[pictures]`` is installed.

    Args:
        console: Where.
    """
    return console.is_terminal and console.color_system in _COLOURS and find_spec("rich_pixels") is not None


def drawn(picture: bytes, columns: int) -> "Pixels | None":
    """Return a picture as lines of colours, made smaller to fit; ``None`` for a file that can't be read.

    Args:
        picture: The file.
        columns: Width in characters that is at hand.
    """
    from PIL import Image
    from rich_pixels import Pixels

    try:
        with Image.open(BytesIO(picture)) as image:
            shown = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None
    shown.thumbnail((columns, _MOST_LINES * _PIXELS_A_LINE))
    drawing: Pixels = Pixels.from_image(shown)
    return drawing
