import pyspiel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blackjack_env.rules import RANKS, hand_total, points


@pytest.mark.parametrize(
    ("hand", "total", "soft"),
    [
        (["A", "K"], 21, True),
        (["A", "A"], 12, True),
        (["A", "A", "9"], 21, True),
        (["A", "A", "10"], 12, False),
        (["10", "J", "2"], 22, False),
        (["A"], 11, True),
        ([], 0, False),
    ],
)
def test_known_hands(hand: list[str], total: int, soft: bool) -> None:
    assert hand_total(hand) == (total, soft)


@given(st.lists(st.integers(0, 51), min_size=2, max_size=6, unique=True))
def test_a_hand_counts_what_openspiel_counts(cards: list[int]) -> None:
    position = pyspiel.load_game("blackjack").new_initial_state()
    dealers = [card for card in range(52) if card not in cards][:2]
    for card in (*cards[:2], *dealers):
        position.apply_action(card)
    ranks = [RANKS[card % 13] for card in cards[:2]]
    for card in cards[2:]:
        if position.is_terminal():
            break
        position.apply_action(0)
        position.apply_action(card)
        ranks.append(RANKS[card % 13])
    assert hand_total(ranks)[0] == position.get_best_player_total(0)


def test_each_rank_has_its_points() -> None:
    assert [points(rank) for rank in RANKS] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10]
