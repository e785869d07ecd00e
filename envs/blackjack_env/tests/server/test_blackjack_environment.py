from hypothesis import given
from hypothesis import strategies as st

from blackjack_env import BlackjackAction
from blackjack_env.models import Move
from blackjack_env.rules import hand_total
from blackjack_env.server.blackjack_environment import BlackjackEnvironment


@given(st.integers(0, 2**32), st.lists(st.sampled_from(("hit", "stand")), min_size=1, max_size=12))
def test_cards_totals_and_rewards_follow_the_rules(seed: int, moves: list[Move]) -> None:
    environment = BlackjackEnvironment()
    observation = environment.reset(seed=seed)
    assert (observation.reward, observation.done, len(observation.hand), len(observation.dealer)) == (None, False, 2, 1)
    for move in moves:
        before = observation
        observation = environment.step(BlackjackAction(move=move))
        assert observation.hand[: len(before.hand)] == before.hand
        assert len(observation.hand) == len(before.hand) + (move == "hit")
        assert (observation.total, observation.soft) == hand_total(observation.hand)
        assert observation.done == (move == "stand" or observation.total > 21)
        if observation.done:
            break
        assert (observation.reward, observation.dealer) == (0.0, before.dealer)
    if observation.done:
        assert observation.dealer_total == hand_total(observation.dealer)[0]
        assert observation.reward == owed(observation.total, observation.dealer_total)
        assert type(observation.reward) is float


def owed(mine: int, dealers: int) -> float:
    if mine > 21:
        return -1.0
    return 1.0 if dealers > 21 or mine > dealers else -1.0 if mine < dealers else 0.0


def test_the_dealer_takes_cards_up_to_16() -> None:
    environment = BlackjackEnvironment()
    for seed in range(200):
        environment.reset(seed=seed)
        end = environment.step(BlackjackAction(move="stand"))
        assert end.dealer_total >= 17
        assert hand_total(end.dealer[:-1])[0] <= 16


def test_the_picture_is_there_once_cards_are_dealt() -> None:
    environment = BlackjackEnvironment()
    environment.reset(seed=1)
    assert "▒▒" in environment.render()
    environment.step(BlackjackAction(move="stand"))
    assert "▒▒" not in environment.render()
