"""Search in a catalog by words, for an entry, and for the differences to an earlier catalog."""

import re
from collections.abc import Mapping

from openenv.discovery.errors import CatalogError
from openenv.discovery.models import CatalogChanges, CatalogSnapshot, DiscoveryEntry, SearchMatch, SupersededEntry
from openenv.discovery.serialization import require_complete

FILTERS = ("artifact_availability", "license", "name", "provider", "tags", "type")
"""Fields that a search may be limited to."""

MAX_MATCHES = 1000
_LONGEST_QUERY = 8192
_WORD = re.compile(r"[^\W_]+")


def score(query: str, text: str) -> int | None:
    """Return the share of a query's words that a text has, in per cent; ``None`` where it has none of them.

    A query without words finds everything, with a score of 0.

    Example:
        >>> score("guess words", "Guess a word of five letters"), score("", "Chess"), score("go", "Chess")
        (50, 0, None)
    """
    wanted = _words(query)
    found = wanted & _words(text)
    if not wanted:
        return 0
    return round(100 * len(found) / len(wanted)) if found else None


def search_catalog(
    snapshot: CatalogSnapshot, query: str, *, filters: Mapping[str, str] | None = None, limit: int = 20
) -> list[SearchMatch]:
    """Find the environments of a catalog that fit a task.

    Args:
        snapshot: A complete catalog.
        query: Words of the task; they are searched in names, descriptions, tags, tools and example queries.
        filters: Values that fields must have; ``FILTERS`` are the fields.
        limit: Matches at most, from 1 to 1000.

    Returns:
        The matches, best first.

    Raises:
        CatalogError: The catalog is incomplete, or an argument is not as it must be.
    """
    require_complete(snapshot)
    if not 1 <= limit <= MAX_MATCHES:
        raise CatalogError(f"Expected a limit from 1 to {MAX_MATCHES}, got {limit}.")
    if len(query) > _LONGEST_QUERY:
        raise CatalogError(f"Expected a query of at most {_LONGEST_QUERY} characters, got {len(query)}.")
    unknown = sorted((filters or {}).keys() - set(FILTERS))
    if unknown:
        raise CatalogError(f"There is no filter {', '.join(unknown)}. There are: {', '.join(FILTERS)}.")
    kept = [entry for entry in snapshot.entries if _passes(entry, filters or {})]
    scored = [(entry, score(query, entry.text)) for entry in kept]
    matches = [SearchMatch(entry=entry, score=points) for entry, points in scored if points is not None]
    return sorted(matches, key=lambda match: (-match.score, match.entry.identifier))[:limit]


def resolve_entry(snapshot: CatalogSnapshot, identifier: str) -> DiscoveryEntry:
    """Return the entry with an identifier.

    Raises:
        CatalogError: There is none, or the catalog is incomplete.
    """
    require_complete(snapshot)
    for entry in snapshot.entries:
        if entry.identifier == identifier:
            return entry
    raise CatalogError(f"The catalog has no entry {identifier!r}; openenv discover shows the identifiers.")


def compare_catalogs(previous: CatalogSnapshot, current: CatalogSnapshot) -> CatalogChanges:
    """Return the differences of two catalogs of one publisher, repository and folder.

    Raises:
        CatalogError: A catalog is incomplete, or they are of different publishers, repositories or folders.
    """
    for snapshot in (previous, current):
        require_complete(snapshot)
    if _scope(previous) != _scope(current):
        raise CatalogError(f"The catalogs are of different sources: {_scope(previous)} and {_scope(current)}.")
    old, new = _by_path(previous), _by_path(current)
    changed = [
        SupersededEntry(previous=old[path], current=new[path])
        for path in sorted(old.keys() & new.keys())
        if old[path] != new[path]
    ]
    return CatalogChanges(
        added=[new[path] for path in sorted(new.keys() - old.keys())],
        withdrawn=[old[path] for path in sorted(old.keys() - new.keys())],
        superseded=[pair for pair in changed if not _same_identifier(pair)],
        corrected=[pair for pair in changed if _same_identifier(pair)],
    )


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _passes(entry: DiscoveryEntry, filters: Mapping[str, str]) -> bool:
    card = entry.data
    values: dict[str, list[str]] = {
        "artifact_availability": [card.artifact_availability],
        "license": [card.license],
        "name": [card.name],
        "provider": [card.source.provider],
        "tags": entry.tags,
        "type": [entry.type],
    }
    return all(value in values[name] for name, value in filters.items())


def _scope(snapshot: CatalogSnapshot) -> tuple[str, str, str]:
    return snapshot.publisher, snapshot.source.uri, snapshot.inventory.root


def _by_path(snapshot: CatalogSnapshot) -> dict[str, DiscoveryEntry]:
    return {entry.data.source.path: entry for entry in snapshot.entries}


def _same_identifier(pair: SupersededEntry) -> bool:
    return pair.previous.identifier == pair.current.identifier
