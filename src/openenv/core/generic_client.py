"""Public import path of ``openenv.core.client.generic``, and of what programs import beside it from there."""

from openenv.core.client.client import EnvClient
from openenv.core.client.generic import GenericAction, GenericEnvClient
from openenv.core.client.results import StepResult

__all__ = ["EnvClient", "GenericAction", "GenericEnvClient", "StepResult"]
