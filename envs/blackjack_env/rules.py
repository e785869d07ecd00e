"""Value of a hand of blackjack."""

from collections.abc import Sequence

RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
TARGET = 21


def points(rank: str) -> int:
    """Return what a card counts: 1 for an ace, 10 for a picture.

    Example:
        >>> [points(rank) for rank in ("A", "7", "10", "K")]
        [1, 7, 10, 10]
    """
    return min(RANKS.index(rank) + 1, 10)


def hand_total(ranks: Sequence[str]) -> tuple[int, bool]:
    """Count a hand.

    Args:
        ranks: The cards' ranks.

    Returns:
        The total, in which one ace counts 11 where that does not exceed 21, and whether one does.

    Example:
        >>> hand_total(["A", "6"]), hand_total(["A", "6", "9"]), hand_total(["A", "A"])
        ((17, True), (16, False), (12, True))
    """
    total = sum(map(points, ranks))
    soft = "A" in ranks and total + 10 <= TARGET
    return (total + 10 if soft else total), soft
