"""A player for any game: it plays a few well, and takes a legal action at random in the others."""

import re

from openenv.core.seeding import rng

from .models import OpenSpielAction, OpenSpielObservation
from .strategies import STRATEGIES

_GAME = re.compile(r"You are player \d+ of (\S+)\.\n")


class OpenSpielPlayer:
    """Plays one episode of whatever game the observations are of.

    Args:
        seed: Of its random choices.
    """

    def __init__(self, seed: int) -> None:
        self._random = rng(seed, "player")

    def __call__(self, observation: OpenSpielObservation) -> OpenSpielAction:
        """Choose an action.

        Args:
            observation: What the player sees. The first line of its text names the game.

        Returns:
            A legal action.
        """
        named = _GAME.match(observation.text)
        game = named[1] if named is not None else ""
        strategy = STRATEGIES.get((game, len(observation.info_state)))
        if strategy is not None:
            chosen = strategy(observation)
            if chosen in observation.legal_actions:
                return OpenSpielAction(action_id=chosen, game_name=game)
        return OpenSpielAction(action_id=self._random.choice(observation.legal_actions), game_name=game or "catch")


def make_player(seed: int) -> OpenSpielPlayer:
    """Make a player for one episode.

    Args:
        seed: Of its random choices.

    Returns:
        A function from observations to actions.
    """
    return OpenSpielPlayer(seed)
