"""The providers, under their public import path."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.containers.base import ContainerProvider as ContainerProvider
    from openenv.core.containers.base import RuntimeProvider as RuntimeProvider
    from openenv.core.containers.docker.pool import DockerPool as DockerPool
    from openenv.core.containers.docker.provider import LocalDockerProvider as LocalDockerProvider
    from openenv.core.containers.kubernetes.provider import KubernetesProvider as KubernetesProvider
    from openenv.core.containers.local_process import LocalProcessProvider as LocalProcessProvider
    from openenv.core.containers.resources import Resources as Resources
    from openenv.core.containers.uv import UVProvider as UVProvider
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.containers.base": ("ContainerProvider", "RuntimeProvider"),
            "openenv.core.containers.docker.pool": ("DockerPool",),
            "openenv.core.containers.docker.provider": ("LocalDockerProvider",),
            "openenv.core.containers.kubernetes.provider": ("KubernetesProvider",),
            "openenv.core.containers.local_process": ("LocalProcessProvider",),
            "openenv.core.containers.resources": ("Resources",),
            "openenv.core.containers.uv": ("UVProvider",),
        },
    )
