"""Stairs whose process ends; in a module of few imports, since each process that serves it imports them."""

from tests.support.environments.training import StairsEnvironment

from openenv.testing import Faults, with_faults


class Exiting(with_faults(StairsEnvironment, Faults(kinds=("exit",), share=1.0, within=1))):  # type: ignore[misc]
    """Stairs whose process ends with the first step."""
