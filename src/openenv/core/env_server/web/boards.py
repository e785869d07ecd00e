"""Boards as HTML, for ``render_web``: tables that are read aloud as such, with styles for light and dark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Board", "Square", "board_html"]

_STYLE = """
body { margin: 0; display: flex; flex-direction: column; align-items: center; font-family: system-ui, sans-serif;
       color: light-dark(#1b1d21, #e4e6ea) }
td { min-width: 30px; height: 30px; padding: 0; text-align: center }
th { padding: 0 6px; font-weight: 400; color: light-dark(#565b64, #a9aeb7) }
p { margin: 8px; max-width: 70ch; white-space: pre-wrap; overflow-wrap: anywhere }
"""


@dataclass(frozen=True)
class Square:
    """A square of a board.

    Attributes:
        text: What stands on it; a page shows it as it is, whatever it has of HTML.
        kind: The class of its element, by which a style colours it.
        name: What is read aloud instead of the text, such as of a square that has only a colour.
    """

    text: str = ""
    kind: str = ""
    name: str = ""


@dataclass(frozen=True)
class Board:
    """A board of rows and columns.

    Attributes:
        rows: The squares of each row, from top to bottom.
        label: What the board is, for those who can't see it.
        column_names: A name above each column, if they have any.
        row_names: A name beside each row, if they have any.
    """

    rows: Iterable[Iterable[Square]]
    label: str = "Board"
    column_names: Sequence[str] = ()
    row_names: Sequence[str] = ()


def board_html(*parts: str | Board, style: str = "") -> str:
    """Draw boards, with text above, between and below them, as the HTML that ``render_web`` returns.

    Args:
        parts: Boards, and texts as they are; empty texts are left out.
        style: CSS of the environment's own, which comes last and so decides; for the classes of squares above all.
            ``light-dark(...)`` has a colour for each theme.

    Returns:
        HTML with its own styles.

    Example:
        >>> html = board_html(Board([[Square("<"), Square(kind="ball", name="a ball")]]), "Your move.")
        >>> html.endswith('<tr><td>&lt;</td><td class="ball" aria-label="a ball"></td></tr></table><p>Your move.</p>')
        True
    """
    drawn = [_table(part) if isinstance(part, Board) else f"<p>{escape(part)}</p>" for part in parts if part]
    return f"<style>{_STYLE}{style}</style>{''.join(drawn)}"


def _table(board: Board) -> str:
    rows = [list(map(_cell, row)) for row in board.rows]
    if board.row_names:
        rows = [[_heading(name, "row"), *row] for name, row in zip(board.row_names, rows, strict=True)]
    if board.column_names:
        corner = ["<td></td>"] if board.row_names else []
        rows = [[*corner, *(_heading(name, "col") for name in board.column_names)], *rows]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<table aria-label="{escape(board.label)}">{body}</table>'


def _cell(square: Square) -> str:
    kind = f' class="{escape(square.kind)}"' if square.kind else ""
    name = f' aria-label="{escape(square.name)}"' if square.name else ""
    return f"<td{kind}{name}>{escape(square.text)}</td>"


def _heading(name: str, scope: str) -> str:
    return f'<th scope="{scope}">{escape(name)}</th>'
