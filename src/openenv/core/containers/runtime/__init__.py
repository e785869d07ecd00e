"""The providers, under their public import path."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.containers.base import ContainerProvider as ContainerProvider
    from openenv.core.containers.base import RuntimeProvider as RuntimeProvider
    from openenv.core.containers.local_process import LocalProcessProvider as LocalProcessProvider
else:
    __all__, __getattr__ = lazy_exports(
        __name__,
        {
            "openenv.core.containers.base": ("ContainerProvider", "RuntimeProvider"),
            "openenv.core.containers.local_process": ("LocalProcessProvider",),
        },
    )
