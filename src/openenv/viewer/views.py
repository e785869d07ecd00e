"""HTML of observations on record, from the environments that are installed beside the viewer."""

from functools import cache

from openenv.auto.discovery import list_environments
from openenv.auto.names import environment_key
from openenv.core.env_server.web.views import Renderer, static_renderer


@cache
def installed_renderer(environment: str) -> Renderer | None:
    """Return what shows an observation of an installed environment; ``None`` where that is not installed, or has none.

    A record is often a stranger's: the name in it is compared with those of the installed environments, and is never
    read as a path or an address. That of an adapted game, as in ``openspiel:chess``, is shown as the environment is
    that has all of them.
    """
    key = environment_key(environment.partition(":")[0])
    package = next((package for package in list_environments() if environment_key(package.name) == key), None)
    return None if package is None else static_renderer(package.environment_class())
