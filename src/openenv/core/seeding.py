"""Random numbers that a seed determines, apart for each purpose."""

from random import Random


def rng(seed: int | str | None, *purpose: str | int) -> Random:
    """Make a source of random numbers for one purpose: a player, the dice, an opponent.

    Each purpose has numbers of its own, so that a draw more for one changes no draw for another. They are for games,
    not for keys.

    Args:
        seed: The same seed gives the same numbers for a purpose; ``None`` gives any.
        *purpose: Words for the purpose.

    Returns:
        Python's generator.

    Example:
        >>> rng(7, "player").randrange(100) == rng(7, "player").randrange(100)
        True
        >>> rng(7, "player").random() == rng(7, "dice").random()
        False
    """
    name = None if seed is None else "/".join(map(str, (seed, *purpose)))
    return Random(name)  # noqa: S311  # a game, not a key
