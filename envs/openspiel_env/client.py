"""The client of the OpenSpiel environment."""

from openenv.core.typed_client import TypedEnvClient

from .models import OpenSpielAction, OpenSpielObservation, OpenSpielState


class OpenSpielEnv(TypedEnvClient[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """Play OpenSpiel's games on a server.

    Example::

        async with OpenSpielEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=1, game_name="tic_tac_toe")
            while not result.done:
                move = result.observation.legal_actions[0]
                result = await env.step(OpenSpielAction(action_id=move))
            print(result.reward)
    """
