"""The client of the blackjack environment."""

from openenv.adapters.openspiel import OpenSpielState
from openenv.core.typed_client import TypedEnvClient

from .models import BlackjackAction, BlackjackObservation


class BlackjackEnv(TypedEnvClient[BlackjackAction, BlackjackObservation, OpenSpielState]):
    """Play blackjack on a server.

    Example::

        async with BlackjackEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=1)
            result = await env.step(BlackjackAction(move="hit"))
            print(result.observation.hand, result.observation.total)
    """
