"""Classes that are made from an id: errors while they are made, and names by which other processes import them.

A class is pickled as its module and its name. A module that makes classes has an attribute for each, by whose name it
is made (PEP 562)::

    def __getattr__(name: str) -> type:
        return class_by_name(__name__, name, classes)

where ``classes(env_id)`` is an object whose attributes are the classes, by their roles.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

ARGUMENT_FAULTS = (ImportError, LookupError, AssertionError, TypeError, ValueError)
"""Errors of environments for arguments that they can't use, or for a library that they lack."""

_NAME = re.compile(r"(\w+)\((.*)\)")


def name_classes(classes: Any, module: str, env_id: str) -> None:
    """Name classes so that their module can make them once more.

    Args:
        classes: An object whose attributes are the classes, by their roles, which are identifiers.
        module: The ``__name__`` of the module that has them as attributes.
        env_id: The id that they are made from.

    Example:
        >>> from types import SimpleNamespace
        >>> class Made: ...
        >>> name_classes(SimpleNamespace(action=Made), "openenv.adapters.example", "Game-v1.5")
        >>> Made
        <class 'openenv.adapters.example.action(Game-v1%2E5)'>
    """
    for role, cls in vars(classes).items():
        cls.__module__ = module
        # A dot would separate the name of a class from that of a class inside it.
        cls.__qualname__ = f"{role}({quote(env_id, safe='').replace('.', '%2E')})"


def class_by_name(module: str, name: str, make: Callable[[str], Any]) -> type:
    """Return the class that has a name of ``name_classes``.

    Raises:
        AttributeError: The name is not of this form.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    cls: type = vars(make(unquote(found[2])))[found[1]]
    return cls
