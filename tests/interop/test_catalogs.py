"""A catalog of our own environments: both packages build the same one, to the byte, and each searches the other's."""

import json
import os
import shutil
from pathlib import Path

from benchmarks.public_package import ROOT
from tests.interop.conftest import Templates
from tests.support.forked import Template, run_forked
from tests.support.services.git_repositories import commit_all

FILES = ("openenv.yaml", "pyproject.toml", "README.md")


def run(template: Template, *arguments: object) -> str:
    words = ["-m", "openenv.cli", *map(str, arguments)]
    done = run_forked(words, cwd=ROOT, env=os.environ, timeout=100, template=template)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_build_and_search_the_same(templates: Templates, tmp_path: Path) -> None:
    repository = tmp_path / "games"
    for manifest in ROOT.glob("envs/*/openenv.yaml"):
        folder = repository / "envs" / manifest.parent.name
        folder.mkdir(parents=True)
        for name in FILES:
            shutil.copy(manifest.parent / name, folder / name)
    commit_all(repository)
    where = ["--repository", repository, "--repository-uri", "https://github.com/owner/games.git"]
    files = {package: tmp_path / f"{package}.json" for package in templates}
    for package, template in templates.items():
        run(template, "catalog", "build", *where, "--publisher", "example.com", "--output", files[package])
    assert files["ours"].read_bytes() == files["public"].read_bytes()
    search = ["discover", "a game of words", "--json", "--catalog"]
    ours = json.loads(run(templates["ours"], *search, files["public"]))
    assert ours == json.loads(run(templates["public"], *search, files["ours"]))
    assert len(ours["results"]) > 1
