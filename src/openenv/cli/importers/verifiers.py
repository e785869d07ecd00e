"""Importer of environments of verifiers."""

from pathlib import Path

from openenv.cli.importers.base import DetectedEnvironment
from openenv.cli.importers.generation import ProjectImporter

__all__ = ["VerifiersImporter", "detect_verifiers_environments"]


class VerifiersImporter(ProjectImporter):
    """Importer of functions ``load_environment`` in projects that import verifiers."""

    source_type = "verifiers"


def detect_verifiers_environments(source: Path) -> list[DetectedEnvironment]:
    """Return the environments of verifiers that a project's folder defines, by its source alone."""
    return VerifiersImporter().detect(source)
