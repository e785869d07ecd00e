"""The socket between environments and what drives them: trainers, evaluators, agents and people.

Names are handed out on first use (PEP 562), so that ``import openenv`` costs next to nothing.
"""

from importlib.metadata import PackageNotFoundError, version

from openenv._lazy import lazy_exports

try:
    __version__ = version("openenv-core")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0.0.0"

__all__, __getattr__ = lazy_exports(
    __name__,
    {
        "openenv.auto": ("find_environment", "list_environments", "make"),
        "openenv.core.env_client": ("EnvClient",),
        "openenv.core.sync_client": ("SyncEnvClient",),
        "openenv.core.generic_client": ("GenericAction", "GenericEnvClient"),
        "openenv.core.typed_client": ("TypedEnvClient", "client_for"),
        "openenv.core.client_types": ("StepResult",),
        "openenv.core.exceptions": ("IllegalActionError", "OpenEnvError"),
        "openenv.core.env_server.app": ("create_app", "serve"),
        "openenv.core.env_server.interfaces": ("Environment", "Transform"),
        "openenv.core.env_server.types": ("Action", "Observation", "State"),
    },
)
__all__ += ["__version__"]
