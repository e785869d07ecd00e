"""The board as people and language models see it."""

from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.web.boards import Board, Square, board_html

from ..rules import ABSENT, ELSEWHERE, IN_PLACE, MAX_GUESSES, Game

# Black on green, black on yellow, white on grey: ECMA-48 "Select Graphic Rendition", 256-colour form.
_COLOURS = {IN_PLACE: "\x1b[30;48;5;71m", ELSEWHERE: "\x1b[30;48;5;179m", ABSENT: "\x1b[97;48;5;240m"}
_PLAIN = "\x1b[0m"
# What is around a letter, for terminals and eyes that see no colours.
_AROUND = {IN_PLACE: "[{}]", ELSEWHERE: "({})", ABSENT: " {} "}
_LEGEND = "[ ] in its place, ( ) elsewhere"

# The class of a letter's square, and what is read aloud of its colour.
_KINDS = {IN_PLACE: ("in-place", "in its place"), ELSEWHERE: ("elsewhere", "elsewhere"), ABSENT: ("absent", "absent")}

_STYLE = """
table { border-spacing: 6px }
td { width: 52px; height: 52px; font-size: 28px; font-weight: 700; border: 2px solid light-dark(#c9ccd2, #4a4e55) }
td[class] { border-color: transparent; color: #fff }
td.in-place { background: #3f7d3b }
td.elsewhere { background: #8f6f00 }
td.absent { background: #5b5f66 }
"""


def in_words(game: Game) -> str:
    """Describe a position to a language model.

    Args:
        game: The position.

    Returns:
        The task where nothing was guessed yet; otherwise a line for each guess, each letter followed by its mark, and
        how the game stands.

    Example:
        >>> print(in_words(Game("mouse", ("stare", "house"))))
        S🟨 T⬛ A⬛ R⬛ E🟩
        H⬛ O🟩 U🟩 S🟩 E🟩
        4 guesses left.
    """
    if not game.guesses:
        return (
            f"Find the secret {len(game.secret)}-letter word in {MAX_GUESSES} guesses. Each letter of a guess gets a "
            f"mark: {IN_PLACE} in its place, {ELSEWHERE} elsewhere in the word, {ABSENT} not in the word."
        )
    rows = [
        " ".join(letter + mark for letter, mark in zip(guess.upper(), marks, strict=True))
        for guess, marks in zip(game.guesses, game.feedbacks, strict=True)
    ]
    return "\n".join([*rows, _standing(game)])


def coloured(game: Game) -> str:
    """Draw a position for a terminal, one coloured row for each guess and an empty one for each that is left.

    Args:
        game: The position.

    Returns:
        Text with colour codes, which says the same without them.
    """
    rows = [
        "".join(
            _COLOURS[mark] + _AROUND[mark].format(letter) + _PLAIN
            for letter, mark in zip(guess.upper(), marks, strict=True)
        )
        for guess, marks in zip(game.guesses, game.feedbacks, strict=True)
    ]
    empty = [" _ " * len(game.secret)] * game.guesses_left
    legend = [_LEGEND] if rows else []
    return "\n".join([*rows, *empty, _standing(game), *legend])


def as_html(observation: Mapping[str, Any]) -> str:
    """Draw a position for a page.

    Args:
        observation: A ``WordleObservation`` as JSON.

    Returns:
        HTML with its own styles.
    """
    rows = zip(observation["guesses"], observation["feedbacks"], strict=True)
    played = [list(map(_square, guess, marks)) for guess, marks in rows]
    empty = [[Square()] * observation["word_length"]] * observation["guesses_left"]
    word = observation["target_word"]
    solved = word is not None and word in observation["guesses"]
    end = "" if word is None else f"Solved: {word}" if solved else f"The word was {word}"
    return board_html(Board([*played, *empty], "Guesses"), end, style=_STYLE)


def _square(letter: str, mark: str) -> Square:
    kind, said = _KINDS.get(mark, ("", ""))
    return Square(letter, kind, f"{letter}, {said}" if said else "")


def _standing(game: Game) -> str:
    if game.solved:
        return f"Solved: the word was {game.secret.upper()}."
    if game.over:
        return f"No guesses left: the word was {game.secret.upper()}."
    return "1 guess left." if game.guesses_left == 1 else f"{game.guesses_left} guesses left."
