"""Providers: what starts and ends the server of an environment, each in its own way."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.providers.base import ContainerProvider as ContainerProvider
    from openenv.core.providers.base import RuntimeProvider as RuntimeProvider
    from openenv.core.providers.cloud.aca import ACASandboxProvider as ACASandboxProvider
    from openenv.core.providers.cloud.daytona import DaytonaProvider as DaytonaProvider
    from openenv.core.providers.cloud.hugging_face import HFSandboxProvider as HFSandboxProvider
    from openenv.core.providers.cloud.modal import ModalProvider as ModalProvider
    from openenv.core.providers.cloud.novita import NovitaSandboxProvider as NovitaSandboxProvider
    from openenv.core.providers.docker.pool import DockerPool as DockerPool
    from openenv.core.providers.docker.provider import LocalDockerProvider as LocalDockerProvider
    from openenv.core.providers.kubernetes.provider import KubernetesProvider as KubernetesProvider
    from openenv.core.providers.local_process import LocalProcessProvider as LocalProcessProvider
    from openenv.core.providers.resources import Resources as Resources
    from openenv.core.providers.swarm.provider import DockerSwarmProvider as DockerSwarmProvider
    from openenv.core.providers.uv import UVProvider as UVProvider
else:
    __all__, _resolve, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.providers.base": ("ContainerProvider", "RuntimeProvider"),
            "openenv.core.providers.cloud.aca": ("ACASandboxProvider",),
            "openenv.core.providers.cloud.daytona": ("DaytonaProvider",),
            "openenv.core.providers.cloud.hugging_face": ("HFSandboxProvider",),
            "openenv.core.providers.cloud.modal": ("ModalProvider",),
            "openenv.core.providers.cloud.novita": ("NovitaSandboxProvider",),
            "openenv.core.providers.docker.pool": ("DockerPool",),
            "openenv.core.providers.docker.provider": ("LocalDockerProvider",),
            "openenv.core.providers.kubernetes.provider": ("KubernetesProvider",),
            "openenv.core.providers.local_process": ("LocalProcessProvider",),
            "openenv.core.providers.resources": ("Resources",),
            "openenv.core.providers.swarm.provider": ("DockerSwarmProvider",),
            "openenv.core.providers.uv": ("UVProvider",),
        },
    )

    def __getattr__(name):
        """Return a public name; a provider whose extra is missing can be imported all the same, and fails when made."""
        try:
            return _resolve(name)
        except ImportError as error:
            from openenv.core.providers.base import unavailable

            return unavailable(name, error)
