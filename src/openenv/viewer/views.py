"""The environments that are installed beside the viewer, for episodes on record: HTML of observations, and names."""

from functools import cache

from openenv.auto.discovery import list_environments
from openenv.auto.names import environment_key
from openenv.auto.package import EnvironmentPackage
from openenv.core.env_server.web.views import Renderer, static_renderer


@cache
def installed_renderer(environment: str) -> Renderer | None:
    """Return the renderer of an installed environment's observations; ``None`` where there is none.

    The author of a record may be unknown: the name in it is compared with those of the installed environments, and is
    never read as a path or an address. That of an adapted game, as in ``openspiel:chess``, is shown as the environment
    is that has all of them.
    """
    package = _installed(environment.partition(":")[0])
    return None if package is None else static_renderer(package.environment_class())


@cache
def play_target(environment: str) -> str:
    """Return the argument of ``openenv play`` for an environment on record; a word if it is not installed."""
    package = _installed(environment)
    return "ENVIRONMENT" if package is None else package.name


def _installed(environment: str) -> EnvironmentPackage | None:
    key = environment_key(environment)
    return next((package for package in list_environments() if environment_key(package.name) == key), None)
