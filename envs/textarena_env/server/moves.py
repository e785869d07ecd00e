"""Texts that are moves in games for several players, for opponents that play at random."""

from collections.abc import Mapping
from functools import cache
from itertools import product


@cache
def known_moves() -> Mapping[str, tuple[str, ...]]:
    """Return, for each game that an opponent can play at random, all that may be a move in one of its variants.

    Returns:
        Texts by the game's name; at any time a few of them are legal.
    """
    cards = ("[a]", *_numbers("[{}]", range(2, 11)), "[j]", "[q]", "[k]")
    bets = (*_numbers("[bet {}]", range(1, 201)), *_numbers("[raise {}]", range(1, 401)))
    return {
        "Battleship": tuple(f"[{row}{column}]" for row, column in product("ABCDEFGHIJKLMNOPQRST", range(20))),
        "Breakthrough": tuple(_steps("abcdefghij", range(1, 11))),
        "Chopsticks": (*_pairs("[attack {} {}]", range(2)), *_pairs("[split {} {}]", range(10))),
        "ConnectFour": _numbers("[col {}]", range(20)),
        "GameOfPureStrategy": cards,
        "HighSociety": _numbers("[{}]", range(1, 12)),
        "IteratedMatchingPennies": ("[heads]", "[tails]"),
        "IteratedPrisonersDilemma": ("[Cooperate]", "[Defect]"),
        "IteratedRockPaperScissors": ("[rock]", "[paper]", "[scissors]"),
        "IteratedTwoThirdsAverage": _numbers("[{}]", range(101)),
        "KuhnPoker": ("[check]", "[bet]", "[call]", "[fold]"),
        "LiarsDice": ("[Call]", *_pairs("[Bid: {}, {}]", range(1, 61), range(1, 7))),
        "Nim": _pairs("[{} {}]", range(10), range(1, 20)),
        "Othello": _pairs("[{}, {}]", range(14)),
        "PigDice": ("[roll]", "[hold]"),
        "Poker": ("[check]", "[call]", "[fold]", *bets),
        "QuantumTicTacToe": _pairs("[{},{}]", range(9)),
        "SimpleTak": _numbers("[{}]", range(64)),
        "Snake": ("[up]", "[down]", "[left]", "[right]"),
        "Surround": ("[up]", "[down]", "[left]", "[right]"),
        "ThreePlayerGOPS": cards,
        "ThreePlayerTicTacToe": _numbers("[{}]", range(25)),
        "TicTacToe": _numbers("[{}]", range(9)),
        "UltimateTicTacToe": _pairs("[{} {}]", range(9)),
        "WildTicTacToe": tuple(f"[{mark} {cell}]" for mark, cell in product("XO", range(9))),
    }


def _numbers(form: str, numbers: range) -> tuple[str, ...]:
    return tuple(form.format(number) for number in numbers)


def _pairs(form: str, first: range, second: range | None = None) -> tuple[str, ...]:
    return tuple(form.format(*pair) for pair in product(first, first if second is None else second))


def _steps(columns: str, rows: range) -> list[str]:
    """Write each step of one row, straight or diagonally, in either direction."""
    places = [(column, row) for column in range(len(columns)) for row in rows]
    return [
        f"[{columns[column]}{row}{columns[column + aside]}{row + ahead}]"
        for (column, row), aside, ahead in product(places, (-1, 0, 1), (-1, 1))
        if 0 <= column + aside < len(columns) and row + ahead in rows
    ]
