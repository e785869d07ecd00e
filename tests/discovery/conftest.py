"""A repository of environments, whose files declare all that a catalog has."""

import json
from pathlib import Path

import pytest
from tests.support.services.git_repositories import commit_all

URI = "https://github.com/owner/games.git"


class Games:
    """A repository with a folder of environments.

    Args:
        folder: Where it is.

    Attributes:
        folder: As above.
        revision: The last commit.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.revision = ""

    def write(self, path: str, text: str) -> None:
        """Write a file, which the next commit has."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self) -> str:
        """Commit what was written; return the commit's hash."""
        self.revision = commit_all(self.folder)
        return self.revision


@pytest.fixture
def games(tmp_path: Path) -> Games:
    """Two environments: ``dice``, which declares everything, and ``maze``, which has a manifest alone."""
    made = Games(tmp_path / "games")
    made.write("pyproject.toml", '[project]\nname = "games"\nlicense = "MIT"\nlicense-files = ["LICENSE"]\n')
    made.write("LICENSE", "MIT License")
    made.write("envs/dice/openenv.yaml", "spec_version: 1\nname: dice\n")
    made.write("envs/dice/pyproject.toml", '[project]\nlicense = "apache-2.0"\ndependencies = ["openenv[core]>=0.2"]\n')
    made.write("envs/dice/README.md", "---\ndescription: Not this one.\ntags: [luck, board]\n---\n# Dice\n")
    declared = {
        "description": "Roll the dice until their sum is a prime.",
        "representative_queries": ["a game of chance", "games with prime numbers"],
        "agent_tools": {"protocol": "mcp", "names": ["roll"], "source": "envs/dice/server/tools.py"},
    }
    made.write("envs/dice/discovery.json", json.dumps(declared))
    made.write("envs/dice/server/tools.py", "raise SystemExit('never imported')\n")
    made.write("envs/maze/openenv.yaml", "name: maze\ndescription: Find the way out of a maze.\n")
    made.write("envs/shared/helpers.py", "")
    made.write("other/openenv.yaml", "name: no environment of the folder envs\n")
    made.commit()
    return made
