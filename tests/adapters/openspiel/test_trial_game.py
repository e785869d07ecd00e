import time

import pyspiel
import pytest

from openenv.adapters.openspiel.trial_game import play


class Watched:
    """A game that counts the episodes that were begun."""

    def __init__(self, name: str) -> None:
        self.game = pyspiel.load_game(name)
        self.begun = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.game, name)

    def new_initial_state(self) -> object:
        self.begun += 1
        return self.game.new_initial_state()


@pytest.mark.parametrize("name", ["catch", "goofspiel", "backgammon"])
def test_an_episode_is_played_to_its_end(name: str) -> None:
    game = Watched(name)
    play(game, seed=1, deadline=time.monotonic() + 60)
    assert game.begun == 1


def test_a_long_episode_is_left_at_the_deadline() -> None:
    begun = time.monotonic()
    play(pyspiel.load_game("go"), seed=1, deadline=begun)
    assert time.monotonic() - begun < 1
