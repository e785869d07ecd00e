"""Boards in a game's text, as games of OpenSpiel and TextArena write them, drawn as HTML.

A board is what stands in rows of equal length: characters, words of up to three characters or cells between bars, or
the position of FEN. Other drawings, such as those of hexagons, stay text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from openenv.core.env_server.web.boards import Board, Square, board_html

__all__ = ["text_board_html"]

_LONGEST_TEXT = 100_000
_LONGEST_LINE = 300  # of a row
_NO_ROW = "!"  # read in place of a longer one
_LONGEST_CELL = 3
_LEAST = 3  # rows, where nothing names the columns; and columns
_MOST_SYMBOLS = 3  # of characters without a blank among them that are a board, and no words

_CELLS = re.compile(r"[\w.+\-#*@?~\u00b7\u25cb\u25cf|<> ]+")
_ROW_NAME = re.compile(r"^(\s*\w{1,2}):(?=\s)")
_NAMED_CHARACTERS = re.compile(r"\s*(\d{1,2}) (\S{3,})\s*")
_RULE = re.compile(r"[\s|+]*[-=]{3}[\s|+=-]*|\s*-(?:\s+-){2,}\s*")
_FRAME = re.compile(r"\s*\+-{3,}\+\s*")
_FEN = re.compile(r"[a-zA-Z0-9+?]+(?:/[a-zA-Z0-9+?]+){3,}(?=$|[\s\[])")
_RANK = re.compile(r"\d{1,2}|\+?[a-zA-Z?]")
_BLANKS = frozenset({"", ".", "-", "_", "__", "+", "\u00b7", " "})
_PIECES = {
    **dict(zip("KQRBNP", "\u2654\u2655\u2656\u2657\u2658\u2659", strict=True)),
    **dict(zip("kqrbnp", "\u265a\u265b\u265c\u265d\u265e\u265f", strict=True)),
}
_NAMES = {"k": "king", "q": "queen", "r": "rook", "b": "bishop", "n": "knight", "p": "pawn"}
_CHESS = 8

_STYLE = """
table { border-spacing: 2px }
td { border-radius: 3px; background: light-dark(#eceef1, #2b2e33) }
td.gap, tr:has(th) > td:first-child:empty { min-width: 8px; background: none }
p { font: 13px ui-monospace, monospace }  /* of other columns, such as those of scores */
td.light, td.dark { width: 44px; height: 44px; font-size: 30px; border-radius: 0; color: #1b1d21 }
td.light { background: #efdcbd }
td.dark { background: #bf946a }
"""


@dataclass(frozen=True)
class _Row:
    """A line that may be the row of a board.

    Attributes:
        form: How its cells are separated: ``bars``, ``words`` or ``characters``.
        cells: The cells, and beside them the name of the row, if it has one.
        marks: Where bars are, or the first word begins and ends; of all rows of a board they are the same.
    """

    form: str
    cells: list[str]
    marks: tuple[int, ...] = ()

    def fits(self, other: "_Row | None") -> bool:
        """Say whether another line may be a row of the same board."""
        if other is None or (self.form, len(self.cells)) != (other.form, len(other.cells)):
            return False
        if self.form != "words":
            return True
        (start, end, *bars), (other_start, other_end, *other_bars) = self.marks, other.marks
        return bars == other_bars and (start == other_start or end == other_end)


def text_board_html(text: str) -> str | None:
    """Draw the boards in a text, with what else it says above, between and below them.

    Args:
        text: What a game wrote.

    Returns:
        HTML, as of ``board_html``; ``None`` where there is no board in the text.
    """
    written = text[:_LONGEST_TEXT].splitlines()
    lines = [line if len(line) <= _LONGEST_LINE else _NO_ROW for line in written]
    parts: list[str | Board] = []
    symbols: set[str] = set()
    said: list[str] = []
    number = 0
    while number < len(lines):
        boards, end = _boards_at(lines, number)
        if not boards:
            said += written[number:end]
            number = end
            continue
        parts += ["\n".join(said).strip("\n"), *boards]
        symbols |= {square.kind for board in boards for row in board.rows for square in row}
        said, number = [], end
    if not parts:
        return None
    return board_html(*parts, "\n".join(said).strip("\n"), style=_STYLE + "".join(map(_tint, sorted(symbols))))


def _boards_at(lines: Sequence[str], start: int) -> tuple[list[Board], int]:
    """Return the boards that begin with a line, and the number of the line behind what was read."""
    line = lines[start]
    fen = _FEN.match(line.strip())
    if fen is not None:
        return _of_fen(fen[0]), start + 1
    if _FRAME.fullmatch(line):
        return _framed(lines, start)
    names = _names(line)
    if names and not _is_row_of_numbers(lines, start):  # above the rows, if there are rows below
        boards, end = _of_rows(lines, _after_rules(lines, start + 1), names)
        if boards:
            return boards, end
    return _of_rows(lines, start, [])


def _is_row_of_numbers(lines: Sequence[str], number: int) -> bool:
    """Say whether a line that counts, as names of columns do, is a row like the next one."""
    row = _row(lines[number]) if lines[number].replace(" ", "").isdigit() else None
    return row is not None and row.fits(_row(lines[number + 1]) if number + 1 < len(lines) else None)


def _of_rows(lines: Sequence[str], start: int, names: list[str]) -> tuple[list[Board], int]:
    """Return the boards of the rows that begin with a line, under the names of their columns, if they have any."""
    first = _after_rules(lines, start)
    rows, end = _rows_from(lines, first)
    if not rows:
        return [], max(first, start + 1)
    if any(_is_cut(lines, number, rows[0]) for number in (first - 1, end)):
        return [], end
    below = _after_rules(lines, end)
    footer = _names(lines[below]) if below < len(lines) else []
    if footer and len(footer) < len(rows[0].cells):
        names, below = names or footer, below + 1
    boards = _named(rows, names) if names else _unnamed(rows)
    return boards, below if boards else end


def _rows_from(lines: Sequence[str], start: int) -> tuple[list[_Row], int]:
    """Return the rows of one board from a line on, and the number of the line behind them."""
    first = _row(lines[start]) if start < len(lines) else None
    if first is None:
        return [], start
    rows, number = [first], start + 1
    while number < len(lines):
        after = _after_rules(lines, number)
        if after == number and first.form == "characters" and not lines[number].strip():
            after += 1  # between the parts of a board
        row = _row(lines[after]) if after < len(lines) else None
        if row is None or not first.fits(row):
            break
        rows.append(row)
        number = after + 1
    return rows, number


def _row(line: str) -> _Row | None:
    line = _ROW_NAME.sub(r"\1 ", line.rstrip(), count=1).replace("||", "|")
    if not line.strip() or _RULE.fullmatch(line) or not _CELLS.fullmatch(line):
        return None
    segments = [segment.strip() for segment in line.split("|")]
    if len(segments) > _LEAST - 1 and all(len(segment) <= _LONGEST_CELL and " " not in segment for segment in segments):
        inner = segments[not segments[0] : len(segments) - (not segments[-1])]
        return _Row("bars", inner) if len(inner) >= _LEAST else None
    words = line.replace("|", " ").split()
    if len(words) >= _LEAST and all(len(word) <= _LONGEST_CELL and not _is_characters(word) for word in words):
        begin = len(line) - len(line.lstrip())
        bars = [index for index, character in enumerate(line) if character == "|"]
        return _Row("words", words, (begin, begin + len(words[0]), *bars))
    if "|" in line:
        return None
    named = _NAMED_CHARACTERS.fullmatch(line)
    if named is not None:
        return _Row("characters", [named[1], *named[2]])
    characters = list(line.strip())
    return _Row("characters", characters) if len(characters) >= _LEAST else None


def _is_characters(word: str) -> bool:
    """Say whether a word is several cells, as in ``.x.``."""
    return len(word) > 1 and "." in word


def _is_cut(lines: Sequence[str], number: int, row: _Row) -> bool:
    """Say whether a line beside a board looks like a row of it that has other cells."""
    if not 0 <= number < len(lines) or _names(lines[number]):
        return False
    beside = _row(lines[number])
    return beside is not None and beside.form == row.form == "words" and all(len(cell) == 1 for cell in beside.cells)


def _after_rules(lines: Sequence[str], number: int) -> int:
    while number < len(lines) and _RULE.fullmatch(lines[number]) and _row(lines[number]) is None:
        number += 1
    return number


def _unnamed(rows: list[_Row]) -> list[Board]:
    """Return the board of rows that nothing beside them names; none where they may be something else."""
    cells = [row.cells for row in rows]
    symbols = {cell for row in cells for cell in row}
    is_board = len(cells) >= _LEAST
    if rows[0].form == "characters":
        is_board = is_board and (bool(symbols & (_BLANKS - {" "})) or len(symbols) <= _MOST_SYMBOLS)
    elif rows[0].form == "words":
        is_board = is_board and all(len(symbol) == 1 or symbol.strip("_").isdigit() for symbol in symbols - _BLANKS)
    return [_board(cells, [], [])] if is_board else []


def _named(rows: list[_Row], names: list[str]) -> list[Board]:
    """Return the boards of rows under the names of their columns; side by side, several have the same names."""
    cells, count = [row.cells for row in rows], len(names)
    if len(cells[0]) == count:
        return [_board(cells, names, [])]
    if len(cells) < _LEAST:
        return []
    if rows[0].form == "characters" and len(cells[0]) - count in (1, 2):
        beside = len(cells[0]) - count
        return [_board([row[beside:] for row in cells], names, ["".join(row[:beside]) for row in cells])]
    period = _period(names)
    if len(cells[0]) == count // period * (period + 1):
        return [
            _board([row[at + 1 : at + 1 + period] for row in cells], names[:period], [row[at] for row in cells])
            for at in range(0, len(cells[0]), period + 1)
        ]
    if len(cells[0]) == count + 2 and all(row[0] == row[-1] for row in cells):
        return [_board([row[1:-1] for row in cells], names, [row[0] for row in cells])]
    return []


def _framed(lines: Sequence[str], start: int) -> tuple[list[Board], int]:
    """Return the board between two rules, in which a blank is a cell unless each row has as many words."""
    end = start + 1
    while end < len(lines) and lines[end].strip().startswith("|") and lines[end].strip().endswith("|"):
        end += 1
    inner = [line.strip()[1:-1] for line in lines[start + 1 : end]]
    is_frame = bool(inner) and end < len(lines) and lines[end].strip() == lines[start].strip()
    if not is_frame or len({len(line) for line in inner}) > 1 or any("|" in line for line in inner):
        return _of_rows(lines, start + 1, [])
    words = [line.split() for line in inner]
    has_words = len({len(row) for row in words}) == 1 and len(words[0]) > 1
    return [_board(words if has_words else [list(line) for line in inner], [], [])], end + 1


def _names(line: str) -> list[str]:
    """Return the names of columns that a line is; none where it is something else."""
    words = line.split()
    if len(words) == 1 and words[0].isalpha():
        words = list(words[0])
    return words if _is_sequence(words[: _period(words)]) else []


def _period(words: list[str]) -> int:
    """Return after how many words they begin anew."""
    return next((size for size in range(1, len(words) + 1) if words == words[:size] * (len(words) // size)), 0)


def _is_sequence(names: Sequence[str]) -> bool:
    """Say whether names count from the first letter on, or from 0 or 1, as in ``a b c`` and ``C1 C2``."""
    if len(names) < _LEAST:
        return False
    if all(len(name) == 1 and name.isalpha() for name in names):
        steps = [ord(right) - ord(left) for left, right in pairwise(names)]
        return names[0] in "aA" and set(steps) <= {1, 2} and steps.count(2) <= 1  # of Go, without an I
    numbers = [name.removeprefix("C") for name in names]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return False
    counted = list(map(int, numbers))
    return counted in (list(range(len(names))), list(range(1, len(names) + 1)))


def _board(cells: Sequence[Sequence[str]], column_names: Sequence[str], row_names: Sequence[str]) -> Board:
    gaps = {column for column, cell in enumerate(cells[0]) if all(row[column] == " " for row in cells)}
    if len(gaps) * 2 >= len(cells[0]):  # of a board on which nothing stands yet
        gaps = set()
    rows = [[_square(cell, is_gap=column in gaps) for column, cell in enumerate(row)] for row in cells]
    return Board(rows, column_names=column_names, row_names=row_names)


def _square(cell: str, *, is_gap: bool) -> Square:
    if is_gap:
        return Square(kind="gap")
    if cell in _BLANKS:
        return Square()
    return Square(cell, "" if cell.isdigit() else f"tint-{ord(cell[0])}")


def _tint(kind: str) -> str:
    """Return the style of the squares that have one symbol: a hue for each."""
    if not kind.startswith("tint-"):
        return ""
    hue = int(kind.removeprefix("tint-")) * 137 % 360  # far from that of the next letter
    return f"td.{kind} {{ background: light-dark(hsl({hue} 75% 84%), hsl({hue} 45% 27%)) }}\n"


def _of_fen(position: str) -> list[Board]:
    ranks = [list(_expanded(rank)) for rank in position.split("/")]
    if len({len(rank) for rank in ranks}) > 1:
        return []
    is_chess = len(ranks) == len(ranks[0]) == _CHESS
    if not is_chess:
        return [Board([[_square(cell, is_gap=False) for cell in rank] for rank in ranks])]
    rows = [[_chess_square(cell, row + column) for column, cell in enumerate(rank)] for row, rank in enumerate(ranks)]
    return [Board(rows, "Chess board", "abcdefgh", "87654321")]


def _expanded(rank: str) -> Iterator[str]:
    for cell in _RANK.findall(rank):
        yield from [""] * int(cell) if cell.isdigit() else [cell]


def _chess_square(cell: str, number: int) -> Square:
    side = "white" if cell.isupper() else "black"
    name = f"{side} {_NAMES[cell.lower()]}" if cell.lower() in _NAMES else ""
    return Square(_PIECES.get(cell, cell), "dark" if number % 2 else "light", name)
