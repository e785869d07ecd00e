"""Environments of other libraries, in and out: a folder for each, which alone imports what it needs.

``ADAPTERS`` has the factory of each prefix of ``PREFIX:ID``, as in ``gymnasium:CartPole-v1``. Nothing of a library is
imported before an environment of it is requested.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Adapter:
    """Source of the environments of another library.

    Attributes:
        factory: ``module:function``. The function takes the id and returns an environment's class, or a
            ``functools.partial`` of one, that other processes can import.
        package: The package that it needs.
        extra: The extra of ours that installs it.
    """

    factory: str
    package: str
    extra: str


ADAPTERS: Mapping[str, Adapter] = {
    "gymnasium": Adapter("openenv.adapters.gymnasium.factory:environment_class", "gymnasium", "gymnasium"),
    "openspiel": Adapter("openenv.adapters.openspiel.factory:environment_for", "pyspiel", "openspiel"),
    "ors": Adapter("openenv.adapters.ors.factory:environment_for", "openreward", "ors"),
    "pettingzoo": Adapter("openenv.adapters.pettingzoo.factory:environment_class", "pettingzoo", "pettingzoo"),
    "reasoning_gym": Adapter(
        "openenv.adapters.reasoning_gym.factory:environment_for", "reasoning_gym", "reasoning-gym"
    ),
    "skyrl": Adapter("openenv.adapters.skyrl.factory:environment_for", "skyrl_gym", "skyrl"),
}
"""Adapters, by the prefix of ``PREFIX:ID``."""
