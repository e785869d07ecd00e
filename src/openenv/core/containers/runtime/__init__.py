"""Public import path of ``openenv.core.providers``."""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports

if TYPE_CHECKING:
    from openenv.core.providers import ACASandboxProvider as ACASandboxProvider
    from openenv.core.providers import ContainerProvider as ContainerProvider
    from openenv.core.providers import DaytonaProvider as DaytonaProvider
    from openenv.core.providers import DockerPool as DockerPool
    from openenv.core.providers import DockerSwarmProvider as DockerSwarmProvider
    from openenv.core.providers import HFSandboxProvider as HFSandboxProvider
    from openenv.core.providers import KubernetesProvider as KubernetesProvider
    from openenv.core.providers import LocalDockerProvider as LocalDockerProvider
    from openenv.core.providers import LocalProcessProvider as LocalProcessProvider
    from openenv.core.providers import ModalProvider as ModalProvider
    from openenv.core.providers import NovitaSandboxProvider as NovitaSandboxProvider
    from openenv.core.providers import Resources as Resources
    from openenv.core.providers import RuntimeProvider as RuntimeProvider
    from openenv.core.providers import UVProvider as UVProvider
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.core.providers": (
                "ACASandboxProvider",
                "ContainerProvider",
                "DaytonaProvider",
                "DockerPool",
                "DockerSwarmProvider",
                "HFSandboxProvider",
                "KubernetesProvider",
                "LocalDockerProvider",
                "LocalProcessProvider",
                "ModalProvider",
                "NovitaSandboxProvider",
                "Resources",
                "RuntimeProvider",
                "UVProvider",
            ),
        },
    )
