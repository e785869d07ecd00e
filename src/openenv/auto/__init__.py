"""Find environments by name, among the installed packages and on disk, and connect to them."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "openenv.auto.auto_env": ("AutoAction", "AutoEnv"),
        "openenv.auto.discovery": ("find_environment", "list_environments"),
        "openenv.auto.making": ("make",),
        "openenv.auto.manifest": ("Manifest", "load_manifest"),
        "openenv.auto.package": ("EnvironmentPackage",),
    },
)
