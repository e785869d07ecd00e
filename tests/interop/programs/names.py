"""List what the modules of this interpreter's package promise: their ``__all__``, else what they define."""

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


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.stdout.write(json.dumps({name: promised(importlib.import_module(name)) for name in sys.argv[1:]}))
