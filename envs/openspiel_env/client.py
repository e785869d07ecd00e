"""The client of the OpenSpiel environment."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.typed_client import TypedEnvClient

from .models import OpenSpielAction, OpenSpielObservation, OpenSpielState


class OpenSpielEnv(TypedEnvClient[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """Play OpenSpiel's games on a server, the environments ``blackjack`` and ``2048`` among them.

    Example::

        async with OpenSpielEnv(base_url="http://localhost:8000") as env:
            result = await env.reset(seed=1, game_name="tic_tac_toe")
            while not result.done:
                move = result.observation.legal_actions[0]
                result = await env.step(OpenSpielAction(action_id=move))
            print(result.reward)
    """

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[OpenSpielObservation]:
        shown = payload.get("observation")
        if isinstance(shown, dict) and "info_state" in shown:
            # Environments of one game show more beside the numbers.
            known = {name: value for name, value in shown.items() if name in OpenSpielObservation.model_fields}
            payload = {**payload, "observation": known}
        return super()._parse_result(payload)
