"""The client of the 2048 environment."""

from openenv.adapters.openspiel import OpenSpielState
from openenv.core.typed_client import TypedEnvClient

from .models import Game2048Action, Game2048Observation


class Game2048Env(TypedEnvClient[Game2048Action, Game2048Observation, OpenSpielState]):
    """Play 2048 on a server.

    Example::

        async with Game2048Env(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=1)
            result = await env.step(Game2048Action(move="left"))
            print(result.observation.board, result.reward)
    """
