"""Wordle on a server of TextArena, which has a transcript instead of a board.

A transcript has all messages of the game, or those since the last guess, by the server's choice::

    [GAME] You submitted [stare].
    Feedback:
    S T A R E
    X X Y Y G
    You have 5 guesses left.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from openenv.core.client_tools import ToolClient
from openenv.core.client_types import StepResult

from .models import WordleAction, WordleObservation, WordleState
from .rules import ABSENT, ELSEWHERE, IN_PLACE, MAX_GUESSES

_WHOLE = "MESSAGE"  # the category of a message that holds the transcript from its beginning
_MARKS = str.maketrans({"G": IN_PLACE, "Y": ELSEWHERE, "X": ABSENT, " ": None})
_ANSWER = re.compile(r"You submitted \[([A-Za-z]+)\]\.\s*Feedback:\s*\n[^\n]*\n([GYX ]+)")
_REFUSAL = re.compile(r"attempted an invalid move\. Reason: (.*?)(?: Please resubmit[^\n]*)?\s*\Z")
_LENGTH = re.compile(r"secret (\d+)-letter word")
_SECRET = re.compile(r"secret word was:? \**([A-Za-z]+)")


def is_textarena(observation: object) -> bool:
    """Return whether an observation, as it came, is one of TextArena."""
    return isinstance(observation, Mapping) and {"prompt", "messages"} <= observation.keys()


@dataclass(frozen=True)
class Board:
    """Position by a transcript.

    Attributes:
        word_length: Letters in the secret word.
        guesses: The guesses that counted, in upper case.
        feedbacks: The marks of each.
        over: Whether the episode has ended.
        target_word: The secret word in upper case, once it was revealed or found.
        refusal: Reason why the last guess was refused; empty where it was not.
    """

    word_length: int = 5
    guesses: tuple[str, ...] = ()
    feedbacks: tuple[str, ...] = ()
    over: bool = False
    target_word: str | None = None
    refusal: str = ""

    @property
    def is_untouched(self) -> bool:
        """Return whether nothing was guessed yet, as after a reset."""
        return not (self.guesses or self.refusal or self.over)

    @property
    def solved(self) -> bool:
        """Return whether the last guess was the secret word."""
        return self.feedbacks[-1:] == (IN_PLACE * self.word_length,)

    def after(self, payload: Mapping[str, Any], sent: str) -> "Board":
        """Read a server's answer.

        Args:
            payload: The answer: an observation of TextArena, its reward, and whether the episode is over.
            sent: The word that was guessed last.

        Returns:
            The board now.
        """
        messages, done = payload["observation"]["messages"], bool(payload.get("done"))
        said = "\n".join(str(message.get("content", "")) for message in messages)
        answers, refused, length = _ANSWER.findall(said), _REFUSAL.search(said), _LENGTH.search(said)
        is_whole = any(message.get("category") == _WHOLE for message in messages)
        begins = is_whole or not (answers or refused or done)
        board = replace(
            Board() if begins else self,
            word_length=int(length[1]) if length else self.word_length,
            refusal=refused[1] if refused else "",
        )
        for word, marks in answers:
            board = board._with(word, marks.translate(_MARKS).strip())
        return board._ended(payload, sent, said) if done else board

    def fields(self) -> dict[str, Any]:
        """Return the fields of the ``WordleObservation`` that shows this board."""
        return {
            "word_length": self.word_length,
            "feedback": self.feedbacks[-1] if self.feedbacks else "",
            "guesses_left": self._guesses_left,
            "guesses": list(self.guesses),
            "feedbacks": list(self.feedbacks),
            "target_word": self.target_word,
            "text": self._text(),
        }

    @property
    def _guesses_left(self) -> int:
        return 0 if self.over else MAX_GUESSES - len(self.guesses)

    def _with(self, word: str, marks: str) -> "Board":
        return replace(self, guesses=(*self.guesses, word.upper()), feedbacks=(*self.feedbacks, marks))

    def _ended(self, payload: Mapping[str, Any], sent: str, said: str) -> "Board":
        """The board at the end. The guess that wins gets no marks from the game, but the reward 1."""
        won = float(payload.get("reward") or 0.0) >= 1.0
        board = self._with(sent, IN_PLACE * self.word_length) if won and not self.solved else self
        told = _SECRET.search(f"{said}\n{payload['observation'].get('info', {}).get('reason', '')}")
        target = sent.upper() if board.solved else told[1].upper() if told else None
        return replace(board, over=True, target_word=target)

    def _text(self) -> str:
        rows = [
            " ".join(letter + mark for letter, mark in zip(guess, marks, strict=True))
            for guess, marks in zip(self.guesses, self.feedbacks, strict=True)
        ]
        standing = f"{self._guesses_left} guesses left."
        if self.over:
            standing = "Solved." if self.solved else "The episode is over."
        return "\n".join([*rows, *([self.refusal] if self.refusal else []), standing])


class TextArenaWordleClient(ToolClient[WordleAction, WordleObservation, WordleState]):
    """Client of Wordle that also reads and writes what a TextArena server has, and shows it as this environment's.

    Each session has a board of its own; on a server of this environment there is none.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # What these hold is replaced and never changed: further sessions of this client begin as its copies.
        self._board: Board | None = None
        self._sent = ""

    def _step_payload(self, action: WordleAction) -> dict[str, Any]:
        payload = super()._step_payload(action)
        if self._board is None:
            return payload
        self._sent = action.word.strip().lower()
        return {"message": f"[{self._sent}]"}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[WordleObservation]:
        return super()._parse_result(self._translated(payload) if is_textarena(payload.get("observation")) else payload)

    def _translated(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The answer of a TextArena server as one of this environment."""
        self._board = (self._board or Board()).after(payload, self._sent)
        reward = None if self._board.is_untouched else float(self._board.solved)
        return {**payload, "observation": self._board.fields(), "reward": reward}

    def _parse_state(self, payload: dict[str, Any]) -> WordleState:
        if self._board is None:
            return super()._parse_state(payload)
        return WordleState(
            episode_id=payload.get("episode_id"),
            step_count=payload.get("step_count", 0),
            word_length=self._board.word_length,
            guesses=list(self._board.guesses),
            solved=self._board.solved,
        )
