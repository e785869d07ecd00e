"""``openenv discover`` and ``openenv catalog`` as a person uses them."""

import json
from pathlib import Path
from typing import Any

from tests.support.services.git_repositories import commit_all


def test_a_catalog_is_built_searched_and_inspected(openenv_here: Any, tmp_path: Path) -> None:
    repository, file = tmp_path / "games", tmp_path / "catalog.json"
    (repository / "envs" / "maze").mkdir(parents=True)
    manifest = repository / "envs" / "maze" / "openenv.yaml"
    manifest.write_text("name: maze\ndescription: Find the way out.\n")
    commit_all(repository)
    where = ["--repository", repository, "--repository-uri", "https://github.com/owner/games.git"]
    build = ["catalog", "build", *where, "--publisher", "example.com", "--output", file]
    built = openenv_here(*build)
    assert (built.returncode, built.stdout) == (0, "")
    assert f"1 environments: {file}" in built.stderr
    shown = openenv_here("discover", "way", "--catalog", file)
    identifier = next(line.split()[-1] for line in shown.stdout.splitlines() if "identifier" in line)
    assert shown.stdout.startswith("maze: Find the way out.\n")
    found = json.loads(
        openenv_here("discover", "way", "--catalog", file, "--filter", "license=unknown", "--json").stdout
    )
    assert [(entry["identifier"], entry["score"]) for entry in found["results"]] == [(identifier, 100)]
    inspected = openenv_here("catalog", "inspect", identifier, "--catalog", file)
    assert json.loads(inspected.stdout) == {key: value for key, value in found["results"][0].items() if key != "score"}
    assert "No environment fits" in openenv_here("discover", "chess", "--catalog", file).stderr
    manifest.write_text("name: maze\n")
    commit_all(repository)
    built = openenv_here(*build)
    assert built.returncode == 1
    assert (
        "Error: envs/maze: no file declares its description as a text.\n0 environments, which is not all"
        in built.stderr
    )
    for arguments, message in (
        (["way", "--catalog", file], "The catalog is incomplete: envs/maze."),
        (["way", "--filter", "name=maze"], "--filter is for the fields of a catalog: give its file with --catalog."),
        (["way", "--catalog", file, "--filter", "name"], "Expected --filter FIELD=VALUE, once for a field, got name."),
    ):
        ended = openenv_here("discover", *arguments)
        assert (ended.returncode, message in ended.stderr) == (1, True)


def test_what_is_known_here(openenv_here: Any, tmp_path: Path) -> None:
    folder = tmp_path / "maze_env"
    folder.mkdir()
    (folder / "openenv.yaml").write_text("spec_version: 1\nname: maze_env\ndescription: Find the Minotaur.\n")
    shown = openenv_here("discover", "minotaur")
    assert shown.stdout == "maze_env: Find the Minotaur.\n  ./maze_env\n"
    assert "1 environment, by their descriptions" in shown.stderr
    (maze,) = json.loads(openenv_here("discover", "minotaur", "--json").stdout)["results"]
    (listed,) = (each for each in json.loads(openenv_here("list", "--json").stdout) if each["status"] == "here")
    assert maze == {**listed, "score": 100}
    assert (maze["folder"], maze["install"]) == (str(folder), None)
    every = json.loads(openenv_here("discover", "--json", "--limit", "1000").stdout)["results"]
    assert {"maze_env", "echo"} <= {each["name"] for each in every}
    assert len(json.loads(openenv_here("discover", "--json", "--limit", "2").stdout)["results"]) == 2
