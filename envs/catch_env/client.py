"""The client of the Catch environment."""

from openenv.core.env_server.types import State
from openenv.core.typed_client import TypedEnvClient

from .models import CatchAction, CatchObservation


class CatchEnv(TypedEnvClient[CatchAction, CatchObservation, State]):
    """Play Catch on a server.

    Example::

        async with CatchEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=1)
            result = await env.step(CatchAction(move="left"))
            print(result.observation.ball, result.observation.paddle)
    """
