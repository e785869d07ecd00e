"""Comparison of two episodes, entry by entry."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from openenv.core.env_server.traces.omission import without_fields_of_entry
from openenv.traces.episodes import RESET, Entry

_COMPARED = ("observation", "reward", "done")


@dataclass(frozen=True, slots=True)
class Difference:
    """Comparison of two entries with the same number.

    Attributes:
        number: Number of the entry, from 0.
        kind: ``reset`` or ``step``.
        parts: The parts that differ: ``request``, ``observation``, ``reward``, ``done`` or ``error``; ``missing`` where
            only one of the episodes has the entry.
        first: The entry of the first episode.
        second: The entry of the second episode.
        left_out: Paths of the fields that are not compared: those that either record leaves out, and ``leave_out``.
    """

    number: int
    kind: str
    parts: tuple[str, ...]
    first: Entry | None
    second: Entry | None
    left_out: Sequence[str] = ()

    @property
    def same(self) -> bool:
        """True if nothing differs."""
        return not self.parts


def differences(first: Iterable[Entry], second: Iterable[Entry], leave_out: Sequence[str] = ()) -> Iterator[Difference]:
    """Compare the entries of two episodes.

    The ``episode_id`` of a reset is not compared.

    Args:
        first: Entries of the first episode.
        second: Entries of the second episode.
        leave_out: Paths of fields that are not compared, such as ``observation.took_ms``.

    Returns:
        An iterator with a ``Difference`` for each number, also where nothing differs.
    """
    for number, (one, other) in enumerate(zip_longest(first, second)):
        present = one or other
        assert present is not None
        recorded = {path for entry in (one, other) if entry is not None for path in entry.left_out}
        left_out = sorted(recorded.union(leave_out))
        parts = _differing(_without(one, left_out), _without(other, left_out))
        yield Difference(number, present.kind, parts, one, other, left_out)


def _without(entry: Entry | None, paths: Sequence[str]) -> Entry | None:
    """Return an entry without fields, or the entry itself if there are no such paths."""
    if entry is None or not paths:
        return entry
    copy = Entry.of_line(entry.line().encode())
    request, answer, _ = without_fields_of_entry(copy.kind, copy.request, copy.answer, paths, failed=copy.failed)
    return replace(copy, request=request, answer=answer)


def _differing(one: Entry | None, other: Entry | None) -> tuple[str, ...]:
    if one is None or other is None:
        return ("missing",)
    parts = [] if (one.kind, _request(one)) == (other.kind, _request(other)) else ["request"]
    if one.failed or other.failed:
        same_error = one.failed and other.failed and one.answer.get("code") == other.answer.get("code")
        return tuple(parts if same_error else [*parts, "error"])
    return tuple(parts + [name for name in _COMPARED if not _equal(one.answer.get(name), other.answer.get(name))])


def _request(entry: Entry) -> Any:
    """Return the request, that of a reset without the episode's name, which differs in each attempt at a task."""
    if entry.kind != RESET or not isinstance(entry.request, dict):
        return entry.request
    return {name: value for name, value in entry.request.items() if name != "episode_id"}


def _equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same; 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
