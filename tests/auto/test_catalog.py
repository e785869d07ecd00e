"""The catalog is what lies under ``envs/``."""

from pathlib import Path

import pytest

from openenv.auto.catalog import CATALOG_FILE, catalog_entry, catalog_text, published, read_entries
from openenv.auto.discovery import ENTRY_POINT_GROUP
from openenv.auto.names import environment_key

ROOT = Path(__file__).resolve().parents[2]


def test_it_names_every_environment_under_envs() -> None:
    file = ROOT / "src" / "openenv" / "auto" / CATALOG_FILE
    assert file.read_text(encoding="utf-8") == catalog_text(ROOT / "envs"), "python -m openenv.auto.catalog envs"
    manifests = list((ROOT / "envs").rglob("openenv.yaml"))
    assert len(published()) == len(manifests) >= 4


@pytest.mark.level("files")
def test_its_names_are_those_that_the_packages_register() -> None:
    for project in (ROOT / "envs").glob("*/pyproject.toml"):
        text = project.read_text(encoding="utf-8")
        registered = text.partition(f'"{ENTRY_POINT_GROUP}"]')[2].partition("[")[0]
        names = {environment_key(line.partition("=")[0].strip(' "')) for line in registered.splitlines() if "=" in line}
        entries = [entry for entry in read_entries(ROOT / "envs") if f'name = "{entry.distribution}"' in text]
        assert {entry.name for entry in entries} == names


def test_an_entry_is_found_by_every_form_of_its_name_and_says_how_it_is_installed() -> None:
    for name in ("wordle", "Wordle-env", "wordle_env"):
        entry = catalog_entry(name)
        assert entry is not None
        assert entry.install_command == "pip install ./envs/wordle_env"
        assert "six guesses" in entry.description
    assert catalog_entry("chess") is None


def test_names_are_told_apart() -> None:
    names = [entry.name for entry in published()]
    assert names == sorted(set(names))
