"""Who plays the other seats."""

import numpy as np
import pytest
from gymnasium import spaces

from openenv.adapters.pettingzoo.opponents import Turn, find_opponent, legal_actions, random_move
from openenv.core.exceptions import ConfigurationError


def last_legal(turn: Turn, numbers: np.random.Generator) -> int:
    """An opponent of the test's own, without any chance."""
    assert turn.legal is not None
    return turn.legal[-1]


def test_random_moves_are_legal_and_all_of_them_come() -> None:
    turn = Turn("a", None, spaces.Discrete(9), [2, 5, 8])
    numbers = np.random.default_rng(1)
    assert {random_move(turn, numbers) for _ in range(100)} == {2, 5, 8}


def test_random_moves_in_other_spaces_are_samples_that_a_seed_repeats() -> None:
    turn = Turn("a", None, spaces.Box(-1, 1, (3,)), None)
    first, second = (random_move(turn, np.random.default_rng(1)) for _ in range(2))
    assert first in turn.space
    assert np.array_equal(first, second)
    assert not np.array_equal(first, random_move(turn, np.random.default_rng(2)))


def test_the_mask_is_in_the_observation_or_in_the_info() -> None:
    space, mask = spaces.Discrete(3, start=1), np.array([1, 0, 1], np.int8)
    assert legal_actions(space, {"observation": 0, "action_mask": mask}, {}) == [1, 3]
    assert legal_actions(space, 0, {"action_mask": mask}) == [1, 3]
    assert legal_actions(space, 0, {}) is None


def test_an_opponent_of_ones_own_is_found() -> None:
    assert find_opponent("random") is random_move
    assert find_opponent(f"{__name__}:last_legal") is last_legal


@pytest.mark.parametrize("name", ["nobody", "no_such_module:f", "json:no_such_function", "", ".a:x", ":x"])
def test_any_other_is_told(name: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"opponents to be random, none, NAME@URL of a model, or module:name, got"
    ):
        find_opponent(name)


def test_an_opponent_chooses() -> None:
    with pytest.raises(ConfigurationError, match=r"to be a function that chooses a move, or a participant, got str\."):
        find_opponent("string:digits")
