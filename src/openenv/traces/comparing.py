"""Comparison of two episodes, entry by entry."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from openenv.traces.episodes import Entry

_COMPARED = ("observation", "reward", "done")


@dataclass(frozen=True, slots=True)
class Difference:
    """Comparison of two entries at the same place.

    Attributes:
        number: Number of the entry, from 0.
        kind: ``reset`` or ``step``.
        parts: The parts that differ: ``request``, ``observation``, ``reward``, ``done`` or ``error``; ``missing`` where
            only one of the episodes has the entry.
        first: The entry of the first episode.
        second: The entry of the second episode.
    """

    number: int
    kind: str
    parts: tuple[str, ...]
    first: Entry | None
    second: Entry | None

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.parts


def differences(first: Iterable[Entry], second: Iterable[Entry]) -> Iterator[Difference]:
    """Compare the entries of two episodes.

    Args:
        first: Entries of the first episode.
        second: Entries of the second episode.

    Returns:
        An iterator with a ``Difference`` for each place, also where nothing differs.
    """
    for number, (one, other) in enumerate(zip_longest(first, second)):
        present = one or other
        assert present is not None
        yield Difference(number, present.kind, _differing(one, other), one, other)


def _differing(one: Entry | None, other: Entry | None) -> tuple[str, ...]:
    if one is None or other is None:
        return ("missing",)
    parts = [] if (one.kind, one.request) == (other.kind, other.request) else ["request"]
    if one.failed or other.failed:
        same_error = one.failed and other.failed and one.answer.get("code") == other.answer.get("code")
        return tuple(parts if same_error else [*parts, "error"])
    return tuple(parts + [name for name in _COMPARED if not _equal(one.answer.get(name), other.answer.get(name))])


def _equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
