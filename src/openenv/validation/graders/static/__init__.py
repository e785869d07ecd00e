"""Graders that read a package's files."""

from openenv._lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__, {"openenv.validation.graders.static.manifest": ("StaticManifestGrader",)}
)
