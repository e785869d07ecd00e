"""The OpenSpiel environment: a game for each episode, chosen at the reset."""

from collections.abc import Mapping
from typing import Any

from openenv.adapters.openspiel import OpenSpielEnvironment as OneGame

from ..models import OpenSpielObservation
from .settings import Settings


class OpenSpielEnvironment(OneGame):
    """Plays a game of OpenSpiel. The reward of a step is what the agent's player gained since its last move.

    Args:
        settings: What to play where a reset does not say; by default what the environment variables do.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        settings = settings or Settings.from_variables()
        super().__init__(
            settings.game_name, agent_player=settings.agent_player, opponent_policy=settings.opponent_policy
        )

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        game_name: str | None = None,
        game_params: Mapping[str, Any] | None = None,
    ) -> OpenSpielObservation:
        """Start a game and play it up to the agent's first move.

        Args:
            seed: The same seed gives the same chance outcomes and the same random opponents; ``None`` gives any.
            episode_id: Name of the episode; a new one is made up where there is none.
            game_name: OpenSpiel's short name of the game; by default the server's.
            game_params: Parameters that differ from the game's defaults.

        Returns:
            What the agent sees, with no reward.

        Raises:
            InvalidRequestError: There is no such game, it cannot be played with these parameters, or it has no such
                player as the server's agent. The running episode continues.
        """
        return self.start(self.game_name if game_name is None else game_name, game_params or {}, seed, episode_id)
