"""What a command is to serve, by the name that it is given."""

from openenv.adapters.targets import AdaptedEnvironment, find_adapted
from openenv.auto.discovery import find_environment
from openenv.auto.making import is_adapted
from openenv.auto.package import EnvironmentPackage


def find_target(target: str) -> EnvironmentPackage | AdaptedEnvironment:
    """Find an environment by its name or folder, or another world's as ``PREFIX:ID``.

    Raises:
        EnvironmentNotFoundError: There is none of that name.
        ConfigurationError: It is not as it must be, or what it needs is not installed.
    """
    return find_adapted(target) if is_adapted(target) else find_environment(target)
