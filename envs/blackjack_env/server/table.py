"""The table as people and language models see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openenv.core.env_server.web.boards import Board, Square, board_html

from ..rules import RANKS, TARGET, hand_total

_SUITS = "♣♦♥♠"
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"

_RULES = (
    "Blackjack: come closer to 21 than the dealer, without exceeding it. An ace counts 11 or 1, a picture 10. "
    "The dealer takes cards up to 16."
)

_STYLE = """
table { border-spacing: 6px }
td.card { width: 46px; height: 64px; font-size: 22px; border-radius: 6px;
          border: 1px solid light-dark(#b9bdc4, #55595f) }
td.hidden { background: repeating-linear-gradient(45deg, #4b63b5 0 4px, #7f93d8 4px 8px) }
"""


@dataclass(frozen=True)
class Table:
    """The cards that the player sees.

    Attributes:
        player: OpenSpiel's numbers of the player's cards.
        dealer: Those of the dealer's; before the end, the one that lies open.
        over: Whether the episode has ended.
        result: At the end 1.0 for a win, 0.0 for a draw, -1.0 for a loss.
    """

    player: list[int]
    dealer: list[int]
    over: bool
    result: float = 0.0

    @classmethod
    def of(cls, position: Any) -> "Table":
        """Look at a position.

        Args:
            position: A ``pyspiel.State`` of blackjack.
        """
        over: bool = position.is_terminal()
        return cls(position.cards(0), position.cards(1)[0 if over else 1 :], over, position.returns()[0])

    @property
    def hand(self) -> list[str]:
        """The ranks of the player's cards."""
        return [_rank(card) for card in self.player]

    @property
    def dealer_hand(self) -> list[str]:
        """The ranks of the dealer's cards."""
        return [_rank(card) for card in self.dealer]

    def in_words(self, *, initial: bool) -> str:
        """Describe the table to a language model.

        Args:
            initial: Whether nothing was played yet; the rules are part of the text then.

        Returns:
            A line for each side, and how the game stands.
        """
        mine, theirs = _counted(self.hand), _counted(self.dealer_hand)
        if not self.over:
            lines = [f"Your cards: {mine}", f"The dealer shows: {theirs}", self._standing()]
            return "\n".join([_RULES, *lines] if initial else lines)
        return f"Your cards: {mine}\nThe dealer's cards: {theirs}\n{self._standing()}"

    def drawn(self) -> str:
        """Draw the table for a terminal, with the suits in their colours."""
        hidden = [] if self.over else ["▒▒"]
        sides = [
            ("Dealer", [*hidden, *map(_face, self.dealer)], self.dealer_hand),
            ("You", [_face(card) for card in self.player], self.hand),
        ]
        lines = [f"{name:8}{' '.join(cards)}  ({hand_total(ranks)[0]})" for name, cards, ranks in sides]
        return "\n".join([*lines, self._standing()])

    def _standing(self) -> str:
        if not self.over:
            return "Moves: hit, stand"
        if hand_total(self.hand)[0] > TARGET:
            return "You exceeded 21 and lose."
        return "You win." if self.result > 0 else "You lose." if self.result < 0 else "A draw."


def as_html(observation: Mapping[str, Any]) -> str:
    """Draw a table for a page.

    Args:
        observation: A ``BlackjackObservation`` as JSON.

    Returns:
        HTML with its own styles.
    """
    hidden = [] if observation["done"] else [Square(kind="card hidden", name="a card that is face down")]
    dealer = [*hidden, *(Square(rank, "card") for rank in observation["dealer"])]
    hand = [Square(rank, "card") for rank in observation["hand"]]
    names = [f"Dealer: {observation['dealer_total']}", f"You: {observation['total']}"]
    standing = observation["text"].splitlines()[-1]
    return board_html(Board([dealer, hand], "Table", row_names=names), standing, style=_STYLE)


def _counted(ranks: list[str]) -> str:
    if len(ranks) == 1:
        return ranks[0]
    total, soft = hand_total(ranks)
    return f"{' '.join(ranks)} = {total}{' (soft)' if soft else ''}"


def _rank(card: int) -> str:
    return RANKS[card % len(RANKS)]


def _face(card: int) -> str:
    suit = _SUITS[card // len(RANKS)]
    face = f"{_rank(card)}{suit}"
    return f"{_RED}{face}{_PLAIN}" if suit in "♦♥" else face
