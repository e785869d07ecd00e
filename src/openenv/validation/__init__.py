"""Is this environment any good? Checks of its folder, without running any of its code."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.validation.report": ("CheckResult", "Report", "validate_folder"),
        "openenv.validation.source": ("Source", "read_source"),
    },
)
