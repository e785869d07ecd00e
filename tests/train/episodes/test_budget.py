"""Budgets of episodes: which limit ends one, and when."""

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.budget import Budget
from openenv.train.episodes.played_episode import NO_USAGE, Usage

SPENT = Usage(80, 20, 0.5)


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (Budget(), None),
        (Budget(max_answers=4), None),
        (Budget(max_answers=3), "max_answers"),
        (Budget(max_episode_tokens=101), None),
        (Budget(max_episode_tokens=100), "max_episode_tokens"),
        (Budget(max_seconds=5.5), None),
        (Budget(max_seconds=5), "max_seconds"),
        (Budget(max_price=0.51), None),
        (Budget(max_price=0.5), "max_price"),
        (Budget(max_answers=3, max_seconds=5), "max_answers"),
    ],
)
def test_a_limit_is_reached(budget: Budget, limit: str | None) -> None:
    assert budget.reached(3, SPENT, 5.0) == limit


def test_a_player_without_a_model_has_no_tokens() -> None:
    assert Budget(max_episode_tokens=1).reached(3, None, 5.0) is None


def test_what_is_not_known_can_t_be_limited() -> None:
    unknown = NO_USAGE + Usage()
    assert (unknown.input_tokens, unknown.cost_usd) == (None, None), "a sum with an unknown number is unknown"
    with pytest.raises(ConfigurationError, match="does not count the tokens"):
        Budget(max_episode_tokens=100).reached(1, unknown, 0.0)
    with pytest.raises(ConfigurationError, match="price of the model's answers is not known"):
        Budget(max_price=1.0).reached(1, unknown, 0.0)
