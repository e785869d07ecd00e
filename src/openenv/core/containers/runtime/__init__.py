"""The providers, under their public import path."""

from openenv._lazy import lazy_exports

__all__, __getattr__ = lazy_exports(
    __name__,
    {
        "openenv.core.containers.base": ("ContainerProvider", "RuntimeProvider"),
        "openenv.core.containers.local_process": ("LocalProcessProvider",),
    },
)
