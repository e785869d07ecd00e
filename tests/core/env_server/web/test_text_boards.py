"""Boards in the texts of games: which are read, and how."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.env_server.web.text_boards import text_board_html

Drawn = list[str | list[list[str]]]


def drawn(text: str) -> Drawn | None:
    """Return the texts and the boards of a drawing; of a board the cells of each row, blank ones as ``.``."""
    html = text_board_html(text)
    if html is None:
        return None
    parts = re.findall(r"<p>(.*?)</p>|<table[^>]*>(.*?)</table>", html.partition("</style>")[2], re.DOTALL)
    return [
        unescape(said) if said else [_cells(row) for row in re.findall("<tr>(.*?)</tr>", table)]
        for said, table in parts
    ]


def _cells(row: str) -> list[str]:
    return [unescape(cell) or "." for cell in re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", row)]


def board(*rows: str) -> list[list[str]]:
    return [row.split() for row in rows]


BOARDS: dict[str, tuple[str, Drawn]] = {
    "characters": ("xxo\nxox\n.o.\nYour move", [board("x x o", "x o x", ". o ."), "Your move"]),
    "characters with names": (
        "3.b.\n2...\n1w.w\n abc\n\nCurrent player: w",
        [board(". a b c", "3 . b .", "2 . . .", "1 w . w"), "Current player: w"],
    ),
    "characters behind numbers": (
        "GoState(komi=7.5)\n\n10 +X+\n 9 ++O\n 8 +++\n   ABC",
        ["GoState(komi=7.5)", board(". A B C", "10 . X .", "9 . . O", "8 . . .")],
    ),
    "characters with blanks in a frame": (
        "Ships:\n+----+\n|    |\n| aa |\n|   b|\n+----+\nAim.",
        ["Ships:", board(". . . .", ". a a .", ". . . b"), "Aim."],
    ),
    "parts of a board": (
        ".x. .o.\n... x..\n\n... ...\n... ..o\nTurn: 0",
        [board(". x . . . o .", ". . . . x . .", ". . . . . . .", ". . . . . . o"), "Turn: 0"],
    ),
    "walls and blanks": (
        "SSSSSS\nSo..oS\nS.  .S\nSSSSSS",
        [board("S S S S S S", "S o . . o S", "S . . . . S", "S S S S S S")],
    ),
    "words": (" 8 14  6\n 9  3 __\n11 12 13", [board("8 14 6", "9 3 .", "11 12 13")]),
    "words that count": ("1 2 3\n4 5 6\n7 8 _", [board("1 2 3", "4 5 6", "7 8 .")]),
    "words with names": (
        "   C1 C2 C3   C4\nR1  1  8  2 |  4\n   - - - - - - -\nR2  4  .  7 |  5\nR3  .  .  . |  5",
        [board(". C1 C2 C3 C4", "R1 1 8 2 4", "R2 4 . 7 5", "R3 . . . 5")],
    ),
    "names with a colon": (
        "   0 1 2\n0: . O O\n1: O . O\n2: . . .",
        [board(". 0 1 2", "0 . O O", "1 O . O", "2 . . .")],
    ),
    "names on both sides": (
        "  a b c\n1 - - o 1\n2 - x o 2\n3 x o o 3\n  a b c",
        [board(". a b c", "1 . . o", "2 . x o", "3 x o o")],
    ),
    "names below": (
        " 3 | B B B\n 2 | . . .\n 1 | W W W\n     a b c\n",
        [board(". a b c", "3 B B B", "2 . . .", "1 W W W")],
    ),
    "names above a rule": ("0 1 2\n-----\n. . .\n. . X\nO O X", [board("0 1 2", ". . .", ". . X", "O O X")]),
    "boards side by side": (
        "    0  1  2      0  1  2\nA   ~  A  ~  A   ~  ~  ~\nB   ~  A  B  B   ~  ~  ~\nC   ~  ~  B  C   X  ~  ~",
        [
            board(". 0 1 2", "A ~ A ~", "B ~ A B", "C ~ ~ B"),
            board(". 0 1 2", "A ~ ~ ~", "B ~ ~ ~", "C X ~ ~"),
        ],
    ),
    "one row under names": (
        "C00 C01 C02\n _   E   _ \nTries left: 6.",
        [board("C00 C01 C02", ". E ."), "Tries left: 6."],
    ),
    "bars": (" X | 1 | 2 \n---+---+---\n 3 | O | 5 \n---+---+---\n 6 | 7 | 8 ", [board("X 1 2", "3 O 5", "6 7 8")]),
    "bars and blanks": (
        "+---+---+---+\n| P |   |   |\n+---+---+---+\n|   | H |   |\n+---+---+---+\n|   |   | G |\n+---+---+---+\nGo.",
        [board("P . .", ". H .", ". . G"), "Go."],
    ),
    "bars with names": (
        "    a   b   c\n  +---+---+---+\n2 |   | O |   | 2\n  +---+---+---+\n1 | X |   |   | 1\n  +---+---+---+\n"
        "0 |   |   |   | 0\n  +---+---+---+\n    a   b   c",
        [board(". a b c", "2 . O .", "1 X . .", "0 . . .")],
    ),
    "double bars": ("|b1||__||w1|\n|__||__||__|\n|__||__||w2|", [board("b1 . w1", ". . .", ". . w2")]),
    "FEN of another size": ("rn1/1P1/3/R2 b -", [board("r n .", ". P .", ". . .", "R . .")]),
}


@pytest.mark.parametrize(("text", "expected"), BOARDS.values(), ids=BOARDS)
def test_a_board(text: str, expected: Drawn) -> None:
    assert drawn(text) == expected


def test_a_board_of_chess_has_its_pieces_by_name() -> None:
    text = (
        "You are player 0 of chess.\n2bqkbnr/1ppppppp/n7/r7/p1B1N3/4P3/PPPP1PPP/1RBQK1NR b Kk - 5 5\nLegal actions: 3"
    )
    html = text_board_html(text)
    assert html is not None
    assert re.findall(r'aria-label="(\w+ king)">(.)<', html) == [("black king", "♚"), ("white king", "♔")]
    assert (html.count('class="dark"'), html.count('class="light"')) == (32, 32)
    assert "<p>Legal actions: 3</p>" in html


def test_each_symbol_has_a_colour_of_its_own_in_both_themes() -> None:
    html = text_board_html("xo.\n.x.\n.ox")
    assert html is not None
    colours = re.findall(r"td\.tint-\d+ \{ background: light-dark\((.*?), (.*?)\) \}", html)
    assert len({colour for pair in colours for colour in pair}) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You are player 0 of kuhn_poker.\n112\nLegal actions: 0 = Pass, 1 = Bet",
        "Terminal. History string: 0, 1, 0",
        "Hello there\nGeneral one\nHello again",
        "North\nSouth\nFirst",
        "♠ K 8\n♥ 10 6\n♦ 8 4",
        "ST S9 S5 \nCA HK CJ \nD7 DJ DQ ",
        "Suit C:    5     J   \nSuit D:    5         \nSuit H:         T    ",
        # Hexagons, whose neighbours are not those of squares.
        "o . . x\n . x . .\n  . . o .\n   . . . x",
        "  a b c d\n 1 . @ . .\n  2 . O .\n   3 . .\n    4 .",
        # Walls between the squares would be lost.
        "   a   b   c\n 1 .   . | .  1\n     +   ---+\n 2 . | .   .  2\n\n 3 .   .   .  3\n   a   b   c",
        # A row that is longer than the others.
        "A . . .\nA . . B\n. X X B >\n. . F B\nD D . B\nJ J . C",
    ],
)
def test_what_is_no_board_of_squares_stays_text(text: str) -> None:
    assert text_board_html(text) is None


LINES = [
    "xo.",
    ".x.",
    "x  ",
    "1 . x o",
    "2 o . .",
    "  a b c",
    "abc",
    "---+---+---",
    " x | o | . ",
    "|   | x | o |",
    "+---+",
    "|x o|",
]


@pytest.mark.level("socket")
@given(st.lists(st.sampled_from(LINES) | st.text(alphabet="abxo12 <.", max_size=8), max_size=12))
def test_nothing_of_a_text_is_lost_or_becomes_html(lines: list[str]) -> None:
    text = "\n".join(lines)
    html = text_board_html(text)
    if html is not None:
        shown = unescape(re.sub(r"<[^>]*>", "", html.partition("</style>")[2]))
        assert set(re.findall(r"<(\w+)", html)) <= {"style", "table", "tr", "td", "th", "p"}
        assert set(re.findall("[a-z0-9]", text)) == set(re.findall("[a-z0-9]", shown))


HOSTILE = {
    "rules": "----\n" * 20_000,
    "rows that are none": "a bb c\n" * 14_000,
    "names": "a b c\n" * 16_000,
    "one long line": "a " * 50_000,
    "one long rule": "=" * 100_000 + "x",
    "frames": "+----+\n| aa |\n" * 7_000,
    "ranks": "8/" * 50_000,
    "digits": "9" * 5000 + "/8/8/8/8",
}


@pytest.mark.level("socket")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_takes_no_time_beyond_its_length(text: str) -> None:
    text_board_html(text)
