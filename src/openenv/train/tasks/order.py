"""The order in which tasks are played: environments in turn, and groups of equal prompts."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

__all__ = ["interleaved", "prompt_groups"]


def interleaved(shares: Mapping[str, int]) -> Iterator[str]:
    """Yield names without end, each in proportion to its share, and as evenly spread as can be.

    Example:
        >>> from itertools import islice
        >>> "".join(islice(interleaved({"a": 2, "b": 1}), 6))
        'abaaba'
    """
    owed = dict.fromkeys(shares, 0)
    while True:
        owed = {name: owed[name] + share for name, share in shares.items()}
        name = max(owed, key=lambda each: owed[each])
        owed[name] -= sum(shares.values())
        yield name


def prompt_groups(prompts: Sequence[Any]) -> list[list[int]]:
    """Return the positions of each group's prompts: equal ones that stand together, as trainers repeat them.

    Example:
        >>> prompt_groups(["a", "a", "b", "b", "a"])
        [[0, 1], [2, 3], [4]]
    """
    return [list(group) for _, group in groupby(range(len(prompts)), key=prompts.__getitem__)]
