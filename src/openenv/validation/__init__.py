"""Checks of an environment: of its folder, and of the episodes that it plays."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.validation.folder_checks": ("CheckResult", "Report", "validate_folder"),
        "openenv.validation.source": ("Source", "read_source"),
    },
)
