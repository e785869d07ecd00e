"""The socket between environments and what drives them: trainers, evaluators, agents and people.

Names are imported on first use (PEP 562), so that ``import openenv`` costs next to nothing.
"""

from typing import TYPE_CHECKING

from openenv._lazy import lazy_exports
from openenv._version import __version__ as __version__

if TYPE_CHECKING:
    from openenv.auto import AutoAction as AutoAction
    from openenv.auto import AutoEnv as AutoEnv
    from openenv.auto import find_environment as find_environment
    from openenv.auto import list_environments as list_environments
    from openenv.auto import make as make
    from openenv.core.client.client import EnvClient as EnvClient
    from openenv.core.client.generic import GenericAction as GenericAction
    from openenv.core.client.generic import GenericEnvClient as GenericEnvClient
    from openenv.core.client.results import StepResult as StepResult
    from openenv.core.client.sync import SyncEnvClient as SyncEnvClient
    from openenv.core.client.typed import TypedEnvClient as TypedEnvClient
    from openenv.core.client.typed import client_for as client_for
    from openenv.core.client.vector import SyncVectorEnv as SyncVectorEnv
    from openenv.core.client.vector import VectorEnv as VectorEnv
    from openenv.core.env_server.app import create_app as create_app
    from openenv.core.env_server.app import serve as serve
    from openenv.core.env_server.interfaces import Environment as Environment
    from openenv.core.env_server.interfaces import Transform as Transform
    from openenv.core.env_server.tools import ToolResult as ToolResult
    from openenv.core.env_server.tools import tool as tool
    from openenv.core.env_server.types import Action as Action
    from openenv.core.env_server.types import Observation as Observation
    from openenv.core.env_server.types import State as State
    from openenv.core.exceptions import IllegalActionError as IllegalActionError
    from openenv.core.exceptions import OpenEnvError as OpenEnvError
    from openenv.core.seeding import rng as rng
    from openenv.core.tasks.task_set import TaskSet as TaskSet
    from openenv.core.wire.array_fields import MediaType as MediaType
    from openenv.core.wire.array_fields import NDArray as NDArray
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "openenv.auto": ("AutoAction", "AutoEnv", "find_environment", "list_environments", "make"),
            "openenv.core.client.client": ("EnvClient",),
            "openenv.core.client.sync": ("SyncEnvClient",),
            "openenv.core.client.generic": ("GenericAction", "GenericEnvClient"),
            "openenv.core.client.typed": ("TypedEnvClient", "client_for"),
            "openenv.core.client.vector": ("SyncVectorEnv", "VectorEnv"),
            "openenv.core.client.results": ("StepResult",),
            "openenv.core.exceptions": ("IllegalActionError", "OpenEnvError"),
            "openenv.core.seeding": ("rng",),
            "openenv.core.tasks.task_set": ("TaskSet",),
            "openenv.core.wire.array_fields": ("MediaType", "NDArray"),
            "openenv.core.env_server.app": ("create_app", "serve"),
            "openenv.core.env_server.interfaces": ("Environment", "Transform"),
            "openenv.core.env_server.tools": ("ToolResult", "tool"),
            "openenv.core.env_server.types": ("Action", "Observation", "State"),
        },
    )
    __all__ += ["__version__"]
