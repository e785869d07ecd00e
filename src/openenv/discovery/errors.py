"""Errors of catalogs."""

from openenv.core.exceptions import ConfigurationError


class CatalogError(ConfigurationError):
    """A catalog can't be built, read or searched."""
