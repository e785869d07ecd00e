"""Actions and observations of blackjack."""

from typing import Literal

from pydantic import Field

from openenv.adapters.openspiel import OpenSpielObservation, WordAction

Move = Literal["hit", "stand"]


class BlackjackAction(WordAction):
    """Take a card or not.

    Attributes:
        move: ``hit`` takes a card, ``stand`` ends the player's turn.
    """

    move: Move = Field(description="hit takes a card, stand ends your turn")


class BlackjackObservation(OpenSpielObservation):
    """The cards on the table, by their ranks: suits do not count. The numbers of OpenSpiel are there too.

    Attributes:
        hand: The player's cards.
        total: What they count.
        soft: Whether an ace among them counts 11.
        dealer: The dealer's cards: only the one that lies open, until the end.
        dealer_total: What these count.
    """

    hand: list[str] = Field(description="The player's cards: A, 2 to 10, J, Q, K")
    total: int = Field(ge=0, description="What the player's cards count")
    soft: bool = Field(description="Whether an ace of the player's counts 11")
    dealer: list[str] = Field(description="The dealer's cards; before the end, the one that lies open")
    dealer_total: int = Field(ge=0, description="What the dealer's cards count")
