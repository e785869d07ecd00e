"""The blackjack environment: OpenSpiel's game in words."""

from typing import Any, ClassVar

from openenv.adapters.openspiel import WordGame

from ..models import BlackjackAction, BlackjackObservation
from ..rules import hand_total
from .table import Table, as_html


class BlackjackEnvironment(WordGame[BlackjackAction, BlackjackObservation]):
    """Come closer to 21 than the dealer, who takes cards up to 16, with one deck of 52 cards that is shuffled anew.

    The reward is 0.0 while the player takes cards, and at the end 1.0 for a win, 0.0 for a draw and -1.0 for a loss.
    """

    GAME: ClassVar[str] = "blackjack"

    def render(self) -> str:
        """Return the table in the colours of a terminal."""
        return "" if self._episode is None else Table.of(self._episode.position).drawn()

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str:
        """Return the table for the page, of an episode that is played, followed or on record."""
        return as_html(observation)

    def _shown(self, position: Any, numbers: dict[str, Any]) -> BlackjackObservation:
        table = Table.of(position)
        total, soft = hand_total(table.hand)
        return BlackjackObservation(
            **numbers,
            hand=table.hand,
            total=total,
            soft=soft,
            dealer=table.dealer_hand,
            dealer_total=hand_total(table.dealer_hand)[0],
            text=table.in_words(initial=numbers["game_phase"] == "initial"),
        )
