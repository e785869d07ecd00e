"""Importers under their public names; ``tests/cli/commands/test_import_env.py`` has what the command does with them."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.environment_folders import write_files

from openenv.cli.importers import (
    DEFAULT_IMPORTERS,
    DetectedEnvironment,
    EnvironmentImporter,
    ImporterRegistry,
    ORSImporter,
    VerifiersImporter,
)
from openenv.cli.importers.ors import detect_ors_environments
from openenv.cli.importers.verifiers import detect_verifiers_environments

RIDDLES = '''
from openreward.environments import Environment


class Riddles(Environment):
    """Ask one."""
'''
SUMS = "import verifiers\n\ndef load_environment():\n    return None\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"games/__init__.py": "", "games/riddles.py": RIDDLES, "sums/__init__.py": SUMS}
    return write_files(tmp_path / "project", files)


@dataclass
class OneFile:
    """An importer of a library that has an environment in each file ``game.txt``."""

    source_type: str = "texts"

    def detect(self, source: Path) -> list[DetectedEnvironment]:
        file = source / "game.txt"
        return [DetectedEnvironment(self.source_type, "Game", "game", file)] if file.is_file() else []

    def generate(self, *, source: Path, destination: Path, env_name: str, detected: DetectedEnvironment) -> None:
        destination.mkdir()
        (destination / "README.md").write_text(f"{env_name} plays {detected.qualified_name} of {source.name}")


def test_each_library_has_its_importer(project: Path) -> None:
    registry = ImporterRegistry(DEFAULT_IMPORTERS)
    assert registry.supported_types == ["ors", "verifiers"]
    assert isinstance(registry.get("ors"), ORSImporter)
    assert isinstance(registry.get("verifiers"), VerifiersImporter)
    found = [(importer.source_type, each.qualified_name) for importer, each in registry.detect(project)]
    assert found == [("ors", "games.riddles:Riddles"), ("verifiers", "sums:load_environment")]
    assert [each.class_name for _, each in registry.detect(project, "ors")] == ["Riddles"]


def test_a_detected_environment_has_its_place(project: Path) -> None:
    (riddles,) = detect_ors_environments(project)
    assert (riddles.source_type, riddles.module_path, riddles.description) == ("ors", "games.riddles", "Ask one.")
    assert (riddles.file_path, riddles.root) == (project / "games" / "riddles.py", project)
    (sums,) = detect_verifiers_environments(project)
    assert (sums.module_path, sums.file_path, sums.root) == ("sums", project / "sums" / "__init__.py", project)


@pytest.mark.parametrize("call", ["get", "detect"])
def test_a_library_without_an_importer_is_refused(call: str, project: Path) -> None:
    registry = ImporterRegistry(DEFAULT_IMPORTERS)
    with pytest.raises(ValueError, match=r"^Unsupported source type 'texts'\. Supported: ors, verifiers$"):
        registry.get("texts") if call == "get" else registry.detect(project, "texts")


def test_importers_of_others_are_used_as_ours(project: Path) -> None:
    (project / "game.txt").write_text("")
    importer: EnvironmentImporter = OneFile()
    ((used, detected),) = ImporterRegistry([*DEFAULT_IMPORTERS, importer]).detect(project, "texts")
    used.generate(source=project, destination=project / "made", env_name="made", detected=detected)
    assert (project / "made" / "README.md").read_text() == "made plays game:Game of project"


def test_an_environment_is_written_that_depends_on_the_project(project: Path, tmp_path: Path) -> None:
    (detected,) = detect_ors_environments(project)
    folder = tmp_path / "riddles_env"
    ORSImporter().generate(source=project, destination=folder, env_name="riddles_env", detected=detected)
    assert "name: riddles_env" in (folder / "openenv.yaml").read_text()
    assert not list(folder.rglob("riddles.py")), "the project's code stays where it is"
