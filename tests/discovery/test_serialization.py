"""Catalogs as files: what is written is read, and what was changed is refused."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.discovery.conftest import URI, Games

from openenv.discovery import CatalogError, CatalogSnapshot, build_catalog, load_catalog, write_catalog
from openenv.discovery.models import github_repository, metadata_url, relative_path
from openenv.discovery.serialization import parse_json


@pytest.fixture
def snapshot(games: Games) -> CatalogSnapshot:
    return build_catalog(games.folder, repository_uri=URI, publisher="example.com")


def test_what_is_written_is_read(snapshot: CatalogSnapshot, tmp_path: Path) -> None:
    file = tmp_path / "catalog.json"
    file.write_text("what was there before")
    write_catalog(snapshot, file)
    assert load_catalog(file) == snapshot
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".catalog")] == []
    (tmp_path / "new").touch()
    assert file.stat().st_mode == (tmp_path / "new").stat().st_mode, "others may read it"


def test_an_incomplete_one_is_written_and_not_read(games: Games, tmp_path: Path) -> None:
    games.write("envs/maze/openenv.yaml", "name: maze\n")
    games.commit()
    write_catalog(build_catalog(games.folder, repository_uri=URI, publisher="example.com"), tmp_path / "catalog.json")
    with pytest.raises(CatalogError, match=r"The catalog is incomplete: envs/maze. Correct"):
        load_catalog(tmp_path / "catalog.json")


def changed(values: dict[str, Any], change: str) -> str:
    match change:
        case "a tag":
            values["entries"][0]["tags"] = ["new"]
        case "an entry less":
            values["entries"] = values["entries"][1:]
        case "another publisher":
            values["publisher"] = "evil.example"
        case "another commit":
            values["source"]["revision"] = "0" * 40
        case "an unknown field":
            values["signed"] = True
        case "another version":
            values["schema_version"] = "2"
        case "a key twice":
            return f'{{"digest": "", {json.dumps(values)[1:]}'
        case "no number":
            return json.dumps(values).replace('"complete": true', '"complete": NaN')
    return json.dumps(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("a tag", "its digest is of something else"),
        ("an entry less", "each folder of the inventory must have one entry"),
        ("another publisher", "is of another publisher than evil.example"),
        ("another commit", "is of another repository or commit"),
        ("an unknown field", "is no catalog of version 0.1-draft: Extra inputs"),
        ("another version", "is no catalog of version 0.1-draft: Input should be '0.1-draft'"),
        ("a key twice", "is no catalog: JSON contains duplicate object keys"),
        ("no number", "is no catalog: JSON contains a non-finite number: NaN"),
    ],
)
def test_what_was_changed_is_refused(snapshot: CatalogSnapshot, tmp_path: Path, change: str, message: str) -> None:
    file = tmp_path / "catalog.json"
    write_catalog(snapshot, file)
    file.write_text(changed(json.loads(file.read_text()), change))
    with pytest.raises(CatalogError, match=message):
        load_catalog(file)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"[" * 100_000])
def test_what_is_no_catalog(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "catalog.json"
    file.write_bytes(content)
    with pytest.raises(CatalogError, match="is no catalog"):
        load_catalog(file)
    with pytest.raises(CatalogError, match="can't be read"):
        load_catalog(tmp_path)


def test_a_digest_of_something_else_is_not_written(snapshot: CatalogSnapshot, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="with the digest of its content"):
        write_catalog(snapshot.model_copy(update={"publisher": "other.example"}), tmp_path / "catalog.json")
    with pytest.raises(CatalogError, match="can't be written"):
        write_catalog(snapshot, tmp_path / "nowhere" / "catalog.json")


def test_a_pipe_in_place_of_a_catalog_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "catalog.json")
    with pytest.raises(CatalogError, match="no regular file"):
        load_catalog(tmp_path / "catalog.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, "a": 1}', "JSON contains duplicate object keys"),
        ("[NaN]", "JSON contains a non-finite number"),
        ("{", "Invalid catalog JSON"),
    ],
)
def test_json_of_catalogs_is_strict(text: str, expected: str) -> None:
    with pytest.raises(CatalogError, match=expected):
        parse_json(text)
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}


@pytest.mark.parametrize(
    ("check", "good", "result", "bad"),
    [
        (relative_path, "envs/echo_env", "envs/echo_env", "../echo_env"),
        (github_repository, "https://github.com/owner/name.git", "owner/name", "https://github.com/owner"),
        (metadata_url, "https://example.org/x", "https://example.org/x", "http://example.org/x"),
    ],
)
def test_values_of_catalogs_are_checked(check: Callable[[str], str], good: str, result: str, bad: str) -> None:
    assert check(good) == result
    with pytest.raises(ValueError, match="expected"):
        check(bad)
