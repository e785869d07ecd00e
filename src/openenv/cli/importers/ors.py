"""Importer of environments of the Open Reward Standard."""

from pathlib import Path

from openenv.cli.importers.base import DetectedEnvironment
from openenv.cli.importers.generation import ProjectImporter

__all__ = ["ORSImporter", "detect_ors_environments"]


class ORSImporter(ProjectImporter):
    """Importer of classes that extend ``openreward.environments.Environment``."""

    source_type = "ors"


def detect_ors_environments(source: Path) -> list[DetectedEnvironment]:
    """Return the environments of the Open Reward Standard that a project's folder defines, by its source alone."""
    return ORSImporter().detect(source)
