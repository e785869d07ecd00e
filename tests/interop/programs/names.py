"""List what the modules of this interpreter's package promise: their ``__all__``, else what they define.

After ``--held``: which models, environments, clients and their functions each module has, of any module.
"""

import importlib
import inspect
import json
import sys
import warnings
from types import ModuleType


def promised(module: ModuleType) -> list[str]:
    """Return the public names of a module."""
    defined = [
        name for name, value in inspect.getmembers(module) if getattr(value, "__module__", "") == module.__name__
    ]
    names = getattr(module, "__all__", defined)
    return sorted(name for name in names if not name.startswith("_"))


def held(module: ModuleType) -> list[str]:
    """Return the names of a module's models, environments, clients and their functions, imported ones among them."""
    owners = {f"openenv.core.{name}" for name in HELD.split()}
    return [name for name, value in inspect.getmembers(module) if getattr(value, "__module__", "") in owners]


HELD = "client_types env_client env_server.interfaces env_server.mcp_types env_server.serialization env_server.types"


if __name__ == "__main__":
    listed, modules = (held, sys.argv[2:]) if sys.argv[1] == "--held" else (promised, sys.argv[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: listed(importlib.import_module(name)) for name in modules}
    sys.stdout.write(json.dumps({name: [each for each in names if each[0] != "_"] for name, names in found.items()}))
