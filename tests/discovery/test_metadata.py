"""Declarations in the files of a commit, each file by itself; ``test_producer`` has what a catalog makes of them."""

from pathlib import Path
from typing import Any

import pytest
from tests.discovery.conftest import URI, Games

from openenv.discovery.errors import CatalogError
from openenv.discovery.metadata import (
    DiscoveryDeclaration,
    discovery_declaration,
    framework_requirement,
    license_declaration,
    project_metadata,
    readme_metadata,
    yaml_mapping,
)
from openenv.discovery.repository import GitMetadataSource, MetadataError


@pytest.fixture
def source(games: Games) -> GitMetadataSource:
    return GitMetadataSource(games.folder, URI, "HEAD", "envs")


def test_a_source_is_a_repository_at_a_commit(source: GitMetadataSource, games: Games) -> None:
    assert (source.repository_id, source.uri, source.root) == ("owner/games", URI, "envs")
    assert (source.repository, source.revision) == (games.folder, games.revision)
    assert source.environments == ["envs/dice", "envs/maze"]
    assert "LICENSE" in source.files
    assert source.url("a b.md") == f"https://github.com/owner/games/blob/{games.revision}/a%20b.md"


def test_a_file_that_is_not_there_is_an_error_where_it_is_required(source: GitMetadataSource) -> None:
    assert source.read("LICENSE") == "MIT License"
    assert source.read("gone") is None
    with pytest.raises(MetadataError, match="The commit has no file gone") as caught:
        source.read("gone", required=True)
    assert caught.value.code == "missing_metadata"
    assert isinstance(caught.value, CatalogError)


def test_each_file_is_read_by_itself(source: GitMetadataSource) -> None:
    assert project_metadata(source, "envs/dice/pyproject.toml")["license"] == "apache-2.0"
    assert readme_metadata(source, "envs/dice/README.md")["tags"] == ["luck", "board"]
    tools = discovery_declaration(source, "envs/dice/discovery.json").agent_tools
    assert tools is not None
    assert tools.names == ["roll"]


def test_a_file_that_is_not_there_declares_nothing(source: GitMetadataSource) -> None:
    assert project_metadata(source, "envs/maze/pyproject.toml") == {}
    assert readme_metadata(source, "envs/maze/README.md") == {}
    assert discovery_declaration(source, "envs/maze/discovery.json") == DiscoveryDeclaration()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "expected keys and values"),
        ("a: {b: 1, b: 2}", "stand once"),
        ("1: 2", "texts"),
        ("a: [", "can't be read"),
    ],
)
def test_yaml_that_is_no_mapping_is_refused(text: str, reason: str) -> None:
    assert yaml_mapping("a: 1", "f.yaml") == {"a": 1}
    with pytest.raises(MetadataError, match=rf"f\.yaml.*{reason}") as caught:
        yaml_mapping(text, "f.yaml")
    assert caught.value.code == "invalid_metadata"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("mit or apache-2.0", ("MIT OR Apache-2.0", None)),
        ({"text": "MIT"}, ("MIT", None)),
        ({"text": "Be kind.\r\n"}, ("other", "Be kind.")),
        ({"file": "LICENSE"}, ("unknown", None)),
        ("", ("unknown", None)),
        (3, ("unknown", None)),
        ("other", ("other", None)),
    ],
)
def test_a_license_is_an_expression_or_a_text(value: Any, expected: tuple[str, str | None] | None) -> None:
    assert license_declaration(value) == expected


def test_a_license_has_a_file_or_a_text() -> None:
    with pytest.raises(MetadataError, match="either a file or a text"):
        license_declaration({"file": "LICENSE", "text": "MIT"})


def test_the_requirement_of_openenv_is_that_of_its_public_name() -> None:
    assert framework_requirement({}) is None
    assert framework_requirement({"dependencies": ["openenv-core>=1", "numpy"]}) is None
    assert framework_requirement({"dependencies": ["numpy", "OpenEnv[core]>=0.2"]}) == "OpenEnv[core]>=0.2"


@pytest.mark.parametrize(
    ("dependencies", "reason"),
    [
        (["openenv", "openenv>1"], "2 times"),
        ("numpy", "a list of requirements"),
        (["??"], "requirements"),
        (3, "got 3"),
    ],
)
def test_dependencies_that_are_none_are_refused(dependencies: Any, reason: str) -> None:
    with pytest.raises(MetadataError, match=reason):
        framework_requirement({"dependencies": dependencies})


@pytest.mark.level("command")
def test_a_repository_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="git can't read"):
        GitMetadataSource(tmp_path, URI, "HEAD", "envs")
