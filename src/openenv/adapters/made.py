"""Classes that are made from an id: what may go wrong, and names by which other processes can import them.

A class is pickled as its module and its name. A module that makes classes hands each out under a name that says what to
make (PEP 562)::

    def __getattr__(name: str) -> type:
        role, env_id = made_from(__name__, name)
        return getattr(classes(env_id), role)
"""

import re
from urllib.parse import quote, unquote

ARGUMENT_FAULTS = (ImportError, LookupError, AssertionError, TypeError, ValueError)
"""What environments raise for arguments that they can't use, or for a library that they lack."""

_NAME = re.compile(r"(\w+)\((.*)\)")


def name_made_class(made: type, module: str, role: str, env_id: str) -> None:
    """Name a class so that its module can make it once more.

    Args:
        made: The class.
        module: The module's ``__name__``; it hands the class out.
        role: Which of the classes that are made from the id it is, as an identifier.
        env_id: What it is made from.

    Example:
        >>> class Made: ...
        >>> name_made_class(Made, "openenv.adapters.example", "action", "Game-v1.5")
        >>> Made
        <class 'openenv.adapters.example.action(Game-v1%2E5)'>
    """
    made.__module__ = module
    # A dot would part the name of a class from that of one inside it.
    made.__qualname__ = f"{role}({quote(env_id, safe='').replace('.', '%2E')})"


def made_from(module: str, name: str) -> tuple[str, str]:
    """Read the role and the id from a class's name.

    Args:
        module: The module's ``__name__``.
        name: The requested name.

    Raises:
        AttributeError: It is not of this form.

    Example:
        >>> made_from("openenv.adapters.example", "action(Game-v1%2E5)")
        ('action', 'Game-v1.5')
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return found[1], unquote(found[2])
