"""Search: the best match first, limited by fields, and how a catalog differs from an earlier one."""

import pytest
from tests.discovery.conftest import URI, Games

from openenv.discovery import (
    CatalogError,
    CatalogSnapshot,
    build_catalog,
    compare_catalogs,
    resolve_entry,
    search_catalog,
)


@pytest.fixture
def snapshot(games: Games) -> CatalogSnapshot:
    return build_catalog(games.folder, repository_uri=URI, publisher="example.com")


def found(snapshot: CatalogSnapshot, query: str, limit: int = 20, **filters: str) -> list[tuple[str, int]]:
    matches = search_catalog(snapshot, query, filters=filters, limit=limit)
    return [(match.entry.display_name, match.score) for match in matches]


def test_by_words_of_all_that_describes_an_environment(snapshot: CatalogSnapshot) -> None:
    assert found(snapshot, "Find a PRIME, the way!") == [("maze", 80), ("dice", 60)]
    assert found(snapshot, "luck") == found(snapshot, "roll") == found(snapshot, "chance") == [("dice", 100)]
    assert found(snapshot, "chess") == []
    assert sorted(found(snapshot, "")) == [("dice", 0), ("maze", 0)]
    assert len(found(snapshot, "", limit=1)) == 1


def test_limited_by_fields(snapshot: CatalogSnapshot) -> None:
    assert found(snapshot, "", license="MIT") == [("maze", 0)]
    assert found(snapshot, "", tags="luck", artifact_availability="resolvable") == [("dice", 0)]
    assert found(snapshot, "", tags="luck", name="maze") == []
    with pytest.raises(
        CatalogError, match=r"There is no filter author. There are: artifact_availability, license, name"
    ):
        found(snapshot, "", author="me")
    with pytest.raises(CatalogError, match="Expected a limit from 1 to 1000, got 0"):
        found(snapshot, "", limit=0)
    with pytest.raises(CatalogError, match="at most 8192 characters"):
        found(snapshot, "x" * 9000)


def test_one_entry(snapshot: CatalogSnapshot) -> None:
    entry = snapshot.entries[0]
    assert resolve_entry(snapshot, entry.identifier) == entry
    with pytest.raises(CatalogError, match="no entry 'urn:air:none'"):
        resolve_entry(snapshot, "urn:air:none")


def test_what_changed(games: Games, snapshot: CatalogSnapshot) -> None:
    games.write("envs/chess/openenv.yaml", "name: chess\ndescription: Checkmate.\n")
    (games.folder / "envs/maze/openenv.yaml").unlink()
    games.commit()
    later = build_catalog(games.folder, repository_uri=URI, publisher="example.com")
    changes = compare_catalogs(snapshot, later)
    assert [entry.display_name for entry in changes.added] == ["chess"]
    assert [entry.display_name for entry in changes.withdrawn] == ["maze"]
    assert [pair.current.display_name for pair in changes.superseded] == ["dice"]
    assert changes.corrected == []
    other = build_catalog(games.folder, repository_uri=URI, publisher="other.example")
    with pytest.raises(CatalogError, match="of different sources"):
        compare_catalogs(snapshot, other)
