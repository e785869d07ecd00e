"""The player of blackjack's basic strategy."""

from collections.abc import Callable

from .models import BlackjackAction, BlackjackObservation


def make_player(seed: int) -> Callable[[BlackjackObservation], BlackjackAction]:
    """Make a player for one episode.

    Args:
        seed: Not used: the strategy leaves nothing to chance.

    Returns:
        A function from observations to actions.
    """
    return best_action


def best_action(observation: BlackjackObservation) -> BlackjackAction:
    """Hit or stand, as the basic strategy has it.

    Args:
        observation: The cards on the table.

    Returns:
        The move.
    """
    # The card that lies open is an ace where it counts 11.
    hit = is_hit(observation.total, observation.soft, observation.dealer_total)
    return BlackjackAction(move="hit" if hit else "stand")


def is_hit(total: int, soft: bool, dealer: int) -> bool:
    """Return whether the basic strategy takes a card: that of one deck, where one can only hit or stand.

    Args:
        total: What the player's cards count.
        soft: Whether an ace among them counts 11.
        dealer: What the dealer's open card counts, 11 for an ace.

    Returns:
        Whether to take a card.

    Example:
        >>> is_hit(16, False, 10), is_hit(16, False, 6), is_hit(18, True, 9)
        (True, False, True)
    """
    if soft:
        return total <= 17 or (total == 18 and dealer in (9, 10))
    if total == 12:
        return dealer not in (4, 5, 6)
    return total <= 11 or (total <= 16 and dealer >= 7)
