"""Clients and servers of environments. Names are handed out on first use (PEP 562)."""

from openenv._lazy import lazy_exports
from openenv.core import env_server

__all__, __getattr__ = lazy_exports(
    __name__,
    {
        "openenv.core.env_client": ("EnvClient",),
        "openenv.core.sync_client": ("SyncEnvClient",),
        "openenv.core.generic_client": ("GenericAction", "GenericEnvClient"),
        "openenv.core.typed_client": ("TypedEnvClient", "client_for"),
        "openenv.core.client_types": ("StepResult",),
        "openenv.core.env_server": tuple(env_server.__all__),
    },
)
