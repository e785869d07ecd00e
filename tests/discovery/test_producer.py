"""Catalogs of real repositories: what they have of each environment, and what keeps one out."""

import json

import pytest
from tests.discovery.conftest import URI, Games

from openenv.discovery import CatalogError, CatalogSnapshot, DiscoveryEntry, build_catalog


def build(games: Games, **arguments: str) -> CatalogSnapshot:
    return build_catalog(games.folder, **{"repository_uri": URI, "publisher": "example.com", **arguments})


def entries(snapshot: CatalogSnapshot) -> dict[str, DiscoveryEntry]:
    return {entry.display_name: entry for entry in snapshot.entries}


def test_an_entry_has_what_its_files_declare(games: Games) -> None:
    snapshot = build(games)
    assert (snapshot.complete, snapshot.issues) == (True, [])
    assert snapshot.inventory.paths == ["envs/dice", "envs/maze"]
    assert snapshot.source.revision == games.revision
    dice, maze = entries(snapshot)["dice"], entries(snapshot)["maze"]
    assert dice.data.description == "Roll the dice until their sum is a prime."
    assert (dice.tags, dice.capabilities) == (["board", "luck"], ["roll"])
    assert (dice.data.license, dice.data.framework_requirement) == ("Apache-2.0", "openenv[core]>=0.2")
    assert dice.data.license_url == f"https://github.com/owner/games/blob/{games.revision}/envs/dice/pyproject.toml"
    assert [(each.role, each.protocol) for each in dice.data.interfaces] == [
        ("orchestration", "openenv"),
        ("agent-tools", "mcp"),
    ]
    assert dice.data.artifacts[0].path == "envs/dice"
    assert dice.metadata["provenance"] == {
        "name": "envs/dice/openenv.yaml#name",
        "description": "envs/dice/discovery.json#description",
        "source": URI,
        "license": "envs/dice/pyproject.toml",
        "agent_tools": "envs/dice/server/tools.py",
        "framework_requirement": "envs/dice/pyproject.toml#project.dependencies",
        "manifest_spec_version": "envs/dice/openenv.yaml#spec_version",
    }
    assert (maze.data.license, maze.data.license_url) == (
        "MIT",
        dice.data.license_url.replace("envs/dice/pyproject.toml", "LICENSE"),
    )
    assert maze.identifier.startswith("urn:air:example.com:openenv:")
    assert maze.identifier.endswith(f":{games.revision}")


def test_only_what_is_committed_counts(games: Games) -> None:
    first = build(games)
    games.write("envs/maze/openenv.yaml", "name: labyrinth\ndescription: Another.\n")
    assert build(games) == first
    games.commit()
    assert set(entries(build(games))) == {"dice", "labyrinth"}
    assert build(games, revision=first.source.revision) == first


def test_the_repository_itself_may_be_the_folder(games: Games) -> None:
    games.write("solo/openenv.yaml", "name: solo\ndescription: Alone.\n")
    games.commit()
    assert build(games, root=".").inventory.paths == ["other", "solo"]


@pytest.mark.parametrize(
    ("file", "text", "code", "message"),
    [
        ("openenv.yaml", "name: maze\n", "invalid_metadata", "envs/maze: no file declares its description as a text."),
        ("openenv.yaml", "name: 3\ndescription: x\n", "invalid_metadata", "no file declares its name as a text"),
        ("openenv.yaml", "[1, 2]", "invalid_metadata", "envs/maze/openenv.yaml: expected keys and values."),
        ("openenv.yaml", "name: [", "invalid_metadata", "envs/maze/openenv.yaml can't be read: "),
        ("pyproject.toml", "[project", "invalid_metadata", "envs/maze/pyproject.toml can't be read: "),
        ("pyproject.toml", "[project]\ndependencies = [1]", "invalid_metadata", "expected a list of requirements"),
        ("pyproject.toml", '[project]\ndependencies = ["openenv", "openenv>1"]', "invalid_metadata", "2 times"),
        ("pyproject.toml", '[project.license]\nfile = "a"\ntext = "b"', "invalid_metadata", "either a file or a text"),
        ("README.md", "---\ntags: [a]\n", "invalid_metadata", "its front matter has no end"),
        ("README.md", "---\ntags: 3\n---\n", "invalid_metadata", "envs/maze: expected a list of texts as tags."),
        (
            "discovery.json",
            '{"tag": []}',
            "invalid_metadata",
            "envs/maze/discovery.json: tag: Extra inputs are not permitted",
        ),
        ("discovery.json", '{"representative_queries": ["one"]}', "invalid_metadata", "representative_queries"),
        ("discovery.json", '{"license": "MIT", "license_source": "gone"}', "missing_metadata", "has no file gone."),
        ("openenv.yaml", "name: m\ndescription: " + "x" * 1024 * 1024, "metadata_limit", "and at most 1048576 fit."),
    ],
)
def test_what_keeps_an_environment_out(games: Games, file: str, text: str, code: str, message: str) -> None:
    games.write(f"envs/maze/{file}", text)
    games.commit()
    snapshot = build(games)
    (issue,) = snapshot.issues
    assert (issue.path, issue.code, issue.severity) == ("envs/maze", code, "error")
    assert message in issue.message
    assert (snapshot.complete, list(entries(snapshot))) == (False, ["dice"])


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ({"names": ["roll", "Step"]}, "Step: these control a simulation"),
        ({"names": ["roll", "roll"]}, "a tool stands twice"),
        ({"source": "LICENSE"}, "the source of its tools, LICENSE, is not in its folder"),
        ({"source": "../envs"}, "expected a path inside the repository"),
    ],
)
def test_tools_that_are_none(games: Games, tools: dict[str, object], message: str) -> None:
    declared = {"protocol": "mcp", "names": ["go"], "source": "envs/maze/openenv.yaml", **tools}
    games.write("envs/maze/discovery.json", json.dumps({"agent_tools": declared}))
    games.commit()
    (issue,) = build(games).issues
    assert message in issue.message


def test_a_link_is_not_followed(games: Games) -> None:
    (games.folder / "envs/maze/openenv.yaml").unlink()
    (games.folder / "envs/maze/openenv.yaml").symlink_to("/etc/passwd")
    games.commit()
    (issue,) = build(games).issues
    assert (issue.code, issue.message) == ("symlink_metadata", "envs/maze/openenv.yaml is a link; expected a file.")


def test_two_licenses_are_none(games: Games) -> None:
    games.write("envs/dice/README.md", "---\nlicense: mit\n---\n")
    games.commit()
    snapshot = build(games)
    (issue,) = snapshot.issues
    assert (issue.code, issue.severity, snapshot.complete) == ("license_conflict", "warning", True)
    assert entries(snapshot)["dice"].data.license == "unknown"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repository_uri": "https://gitlab.com/owner/games.git"}, "Expected https://github.com/OWNER/NAME.git as the"),
        ({"repository_uri": "https://me:secret@github.com/owner/games.git"}, "as the repository's address"),
        ({"publisher": "example"}, "Expected a domain as the publisher, as example.com, got 'example'."),
        ({"namespace": "a:b"}, "Expected letters, digits"),
        ({"revision": "no-such-branch"}, "git can't read "),
        ({"revision": "--help"}, "git can't read "),
        ({"root": "nowhere"}, "has no folder nowhere at "),
        ({"root": "../games"}, "Expected a path inside the repository"),
    ],
)
def test_what_no_catalog_can_be_built_of(games: Games, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        build(games, **arguments)
