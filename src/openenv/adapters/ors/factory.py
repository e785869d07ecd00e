"""Maker of an ORS environment by its id, as in ``openenv serve ors:http://localhost:8080``."""

from functools import partial
from typing import Any

from openenv.adapters.ids import read_id
from openenv.adapters.ors.environment import OrsEnvironment, checked_target
from openenv.core.exceptions import ConfigurationError

_PARAMETERS = ("split", "environment")


def environment_for(target: str) -> partial[OrsEnvironment]:
    """Return a maker of an ORS environment, to be served or used in this process.

    Args:
        target: The address of an ORS server, or a name of OpenReward's catalog, as in ``Eigent/SETA``. Behind a ``?``
            it may have the ``split`` whose tasks are played, and the ``environment`` where the server has several.

    Raises:
        ConfigurationError: It is neither, or has other parameters behind the ``?``.

    Example:
        >>> environment_for("http://localhost:8080?split=test").keywords
        {'split': 'test'}
    """
    named = read_id(target)
    checked_target(named.name)
    unknown = [name for name in named.parameters if name not in _PARAMETERS]
    if unknown:
        raise ConfigurationError(f"Expected {' or '.join(_PARAMETERS)} behind ors:{named.name}?, got {unknown[0]}.")
    arguments: dict[str, Any] = {name: str(value) for name, value in named.parameters.items()}
    return partial(OrsEnvironment, named.name, **arguments)
