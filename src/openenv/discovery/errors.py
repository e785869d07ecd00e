"""Errors of catalogs, and of the files of environments that declare their entries."""

from openenv.core.exceptions import ConfigurationError


class CatalogError(ConfigurationError):
    """A catalog can't be built, read or searched."""


class DeclarationError(CatalogError):
    """Error in an environment's files, which lack what its entry needs; the catalog has an issue instead."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
