"""Environments of the Open Reward Standard (ORS), played as ours: those of a server, and classes of a project.

The other direction needs nothing of this: every server of ours answers the clients of ORS.
"""

from openenv._extras import install_command

try:
    import openreward as _openreward  # noqa: F401  # raised here once, instead of a traceback from the depths
except ImportError as error:
    raise ImportError(f"This needs the OpenReward SDK: {install_command('ors')}") from error

from openenv.adapters.ors.environment import OrsEnvironment
from openenv.adapters.ors.factory import environment_for
from openenv.adapters.ors.results import OrsObservation

__all__ = ["OrsEnvironment", "OrsObservation", "environment_for"]
