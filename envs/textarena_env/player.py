"""Player that reads the games' texts. It solves Wordle, and never loses at tic-tac-toe."""

import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Protocol

from openenv.core.seeding import rng

from .models import TextArenaAction, TextArenaObservation
from .words import common_words, nouns

SCRIPTED_GAMES = frozenset({"TicTacToe"})  # games for several players that a strategy below plays

_BRACKETED = re.compile(r"\[[^\[\]\n]{1,40}\]")
_FEEDBACK = re.compile(r"Feedback:\n([A-Z](?: [A-Z])+)\n([GYX](?: [GYX])+)")
_LENGTH = re.compile(r"secret (\d+)-letter word")
_BOARD = re.compile(r"Current Board:\n\n(.*?)\n\nAvailable Moves", re.DOTALL)
_LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class _Strategy(Protocol):
    def choose(self, observation: TextArenaObservation) -> str: ...


class TextArenaPlayer:
    """Plays any game; Wordle and tic-tac-toe well.

    Args:
        seed: The same seed makes the same choices.
    """

    def __init__(self, seed: int | str) -> None:
        self._random = rng(seed, "player")
        self._strategy: _Strategy | None = None

    def __call__(self, observation: TextArenaObservation) -> TextArenaAction:
        """Choose a message.

        Args:
            observation: Text of the game; the first one shows which game it is.

        Returns:
            The move.
        """
        if self._strategy is None:
            self._strategy = _strategy(str(observation.metadata.get("env_id", "")), self._random)
        return TextArenaAction(message=self._strategy.choose(observation))


class _WordleStrategy:
    """Guesses a common noun that agrees with all feedback so far, any of them with equal chance."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._candidates: list[str] = []

    def choose(self, observation: TextArenaObservation) -> str:
        for message in observation.messages:
            length = _LENGTH.search(message.content)
            if length is not None:
                self._candidates = list(_secrets(int(length[1])))
            for letters, marks in _FEEDBACK.findall(message.content):
                self._keep(letters.replace(" ", "").lower(), marks.replace(" ", ""))
        guess = self._random.choice(self._candidates)
        self._candidates.remove(guess)  # should the game refuse it
        return f"[{guess}]"

    def _keep(self, guess: str, marks: str) -> None:
        agreeing = [word for word in self._candidates if marked(word, guess) == marks]
        # The hardcore variants have rare words too.
        self._candidates = agreeing or [word for word in sorted(nouns()) if marked(word, guess) == marks]


@cache
def _secrets(length: int) -> tuple[str, ...]:
    return tuple(word for word in common_words() if word in nouns() and len(word) == length)


def marked(secret: str, guess: str) -> str:
    """Mark each letter of a guess as the game does.

    Args:
        secret: The secret word.
        guess: The guess.

    Returns:
        ``G`` for a letter in its place, ``Y`` for one elsewhere in the word, ``X`` for neither; empty where the words
        differ in length.

    Example:
        >>> marked("abbey", "babes")
        'YYGGX'
    """
    if len(secret) != len(guess):
        return ""
    left = [letter for letter, guessed in zip(secret, guess, strict=True) if letter != guessed]
    marks = []
    for letter, guessed in zip(secret, guess, strict=True):
        if letter == guessed:
            marks.append("G")
        elif guessed in left:
            left.remove(guessed)
            marks.append("Y")
        else:
            marks.append("X")
    return "".join(marks)


class _TicTacToeStrategy:
    """Makes a move after which it cannot lose, or wins; any of the best with equal chance."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, observation: TextArenaObservation) -> str:
        drawn = [board for message in observation.messages for board in _BOARD.findall(message.content)]
        cells = re.findall(r"[XO\d]", drawn[-1])
        board = "".join(" " if cell.isdigit() else cell for cell in cells)
        mark = "XO"[observation.current_player_id == 0]
        values = {cell: -_value(_with(board, cell, mark), _other(mark)) for cell in _empty(board)}
        best = max(values.values())
        return f"[{self._random.choice([cell for cell, value in values.items() if value == best])}]"


@cache
def _value(board: str, mark: str) -> int:
    """Return the value of the game for the player of ``mark``, who is to move: 1 for a win, -1 for a loss."""
    if any(board[a] == board[b] == board[c] == _other(mark) for a, b, c in _LINES):
        return -1
    return max((-_value(_with(board, cell, mark), _other(mark)) for cell in _empty(board)), default=0)


def _empty(board: str) -> list[int]:
    return [cell for cell, mark in enumerate(board) if mark == " "]


def _with(board: str, cell: int, mark: str) -> str:
    return board[:cell] + mark + board[cell + 1 :]


def _other(mark: str) -> str:
    return "O" if mark == "X" else "X"


class _BracketStrategy:
    """Repeats something that the game wrote in square brackets, as most games write the moves that they know."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._shown: list[str] = []

    def choose(self, observation: TextArenaObservation) -> str:
        said = [message.content for message in observation.messages if message.category != "PLAYER_ACTION"]
        shown = [text for content in reversed(said) for text in _BRACKETED.findall(content)]
        self._shown = shown or self._shown or ["[1]"]
        return self._random.choice(self._shown)


def _strategy(env_id: str, random: Random) -> _Strategy:
    if env_id.startswith("Wordle-"):
        return _WordleStrategy(random)
    if env_id.startswith("TicTacToe-"):
        return _TicTacToeStrategy(random)
    return _BracketStrategy(random)


def make_player(seed: int | str) -> Callable[[TextArenaObservation], TextArenaAction]:
    """Make a player for one episode.

    Args:
        seed: Of its random choices.

    Returns:
        A function from observations to actions.
    """
    return TextArenaPlayer(seed)
