"""Catalogs of environments: a file of all that a Git repository has at one commit, to be searched without it.

A catalog is built from files that the commit has, and no environment's code is imported or run for it. Its format is
that of the public package, `0.1-draft`, and each reads what the other has written.
"""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.discovery.errors": ("CatalogError",),
        "openenv.discovery.models": (
            "CatalogChanges",
            "CatalogSnapshot",
            "DiscoveryEntry",
            "ENVIRONMENT_MEDIA_TYPE",
            "EnvironmentCard",
            "PROFILE_VERSION",
            "SearchMatch",
        ),
        "openenv.discovery.producer": ("build_catalog",),
        "openenv.discovery.search": ("compare_catalogs", "resolve_entry", "search_catalog"),
        "openenv.discovery.serialization": ("load_catalog", "write_catalog"),
    },
)
