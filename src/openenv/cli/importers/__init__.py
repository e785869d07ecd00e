"""Projects of other libraries as environments: found by reading their source, and played by their own code.

``ImporterRegistry(DEFAULT_IMPORTERS)`` is what ``openenv import`` looks through.
"""

from openenv.cli.importers.base import DetectedEnvironment, EnvironmentImporter, ImporterRegistry
from openenv.cli.importers.ors import ORSImporter
from openenv.cli.importers.verifiers import VerifiersImporter

__all__ = [
    "DEFAULT_IMPORTERS",
    "DetectedEnvironment",
    "EnvironmentImporter",
    "ImporterRegistry",
    "ORSImporter",
    "VerifiersImporter",
]

DEFAULT_IMPORTERS: list[EnvironmentImporter] = [ORSImporter(), VerifiersImporter()]
