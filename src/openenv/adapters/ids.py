"""Ids of environments of other libraries, with parameters behind them."""

import difflib
import json
import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

_CLOSE_ENOUGH = 0.5


class NamedParameters(NamedTuple):
    """An id, and parameters of what it names.

    Attributes:
        name: The id itself.
        parameters: Arguments by their names.
    """

    name: str
    parameters: dict[str, Any]


def read_id(env_id: str) -> NamedParameters:
    """Separate an id from the parameters behind it, as in a URL's query; their values are JSON, or else text.

    Raises:
        ConfigurationError: A parameter has no value.

    Example:
        >>> read_id("FrozenLake-v1?map_name=8x8&is_slippery=false")
        NamedParameters(name='FrozenLake-v1', parameters={'map_name': '8x8', 'is_slippery': False})
    """
    name, _, query = env_id.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise ConfigurationError(f"Expected {env_id!r} to end like ?name=value&other=value; {error}.") from error
    return NamedParameters(name, {key: _value(text) for key, text in pairs})


def short_name(env_id: str) -> str:
    """Return the name in an id, without its location: no module, no scheme of an address, no parameters.

    Example:
        >>> [short_name(each) for each in ("my_pkg.games:Maze-v1?size=9", "http://localhost:8080?split=test")]
        ['Maze-v1', 'localhost:8080']
    """
    name = env_id.partition("?")[0]
    _scheme, is_address, rest = name.partition("://")
    return rest.rstrip("/") if is_address else name.rpartition(":")[2]


def import_registering(env_id: str) -> str:
    """Import the module before the colon of ``MODULE:ID``, where there is one, which registers what the id names.

    Raises:
        EnvironmentNotFoundError: There is no such module.
    """
    module, colon, name = env_id.rpartition(":")
    if not colon:
        return name
    if not all(part.isidentifier() for part in module.split(".")):
        raise EnvironmentNotFoundError(f"Expected MODULE:ID, as in my_package.my_module:{name}, got {env_id!r}.")
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise EnvironmentNotFoundError(
            f"{env_id} imports the module {module}, but there is no {error.name}; install it."
        ) from error
    return name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence, with a space before it, of the names that are close to one; empty where none is."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=_CLOSE_ENOUGH)
    return f" Did you mean {' or '.join(by_lower[each] for each in close)}?" if close else ""


def class_name(env_id: str) -> str:
    """Make a class's name of an id.

    Example:
        >>> class_name("ALE/Pong-v5")
        'ALEPongV5'
    """
    words = re.findall(r"[A-Za-z0-9]+", env_id)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"Env{name}"


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
