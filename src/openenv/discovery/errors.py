"""Errors of catalogs, and of the files of environments that declare their entries."""

from openenv.core.exceptions import ConfigurationError


class CatalogError(ConfigurationError):
    """A catalog can't be built, read or searched."""


class DeclarationError(CatalogError):
    """An environment's files do not say what its entry needs; its place in the catalog is an issue instead.

    Args:
        code: What is wrong, in a word for programs.
        message: What is wrong, for people.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
