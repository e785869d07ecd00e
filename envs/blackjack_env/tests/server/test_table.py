import re

import pyspiel
import pytest

from blackjack_env.server.table import Table, as_html

# OpenSpiel counts the cards by suit and rank: C A, 2, ... K, D A, ...
CA, C5, CT, CJ, D6, H6, H7, SK = 0, 4, 9, 10, 18, 31, 32, 51


def table(*cards: int, moves: tuple[int, ...] = ()) -> Table:
    """Deal two cards to each, the dealer's second one open; then moves and the cards that they bring."""
    position = pyspiel.load_game("blackjack").new_initial_state()
    for number in (*cards, *moves):
        position.apply_action(number)
    return Table.of(position)


def test_before_the_end_the_dealer_shows_one_card() -> None:
    dealt = table(CA, D6, SK, H7)
    assert (dealt.hand, dealt.dealer_hand) == (["A", "6"], ["7"])
    assert dealt.in_words(initial=False).splitlines() == [
        "Your cards: A 6 = 17 (soft)",
        "The dealer shows: 7",
        "Moves: hit, stand",
    ]
    assert "K" not in dealt.drawn()


@pytest.mark.parametrize(
    ("moves", "lines"),
    [
        (
            (0, CT, 0, CJ),
            ["Your cards: A 6 10 J = 27", "The dealer's cards: K 7 = 17", "You exceeded 21 and lose."],
        ),
        ((1,), ["Your cards: A 6 = 17 (soft)", "The dealer's cards: K 7 = 17", "A draw."]),
        ((0, 3, 1), ["Your cards: A 6 4 = 21 (soft)", "The dealer's cards: K 7 = 17", "You win."]),
        ((0, C5, 1), ["Your cards: A 6 5 = 12", "The dealer's cards: K 7 = 17", "You lose."]),
    ],
)
def test_the_end_tells_all_cards_and_who_has_won(moves: tuple[int, ...], lines: list[str]) -> None:
    assert table(CA, D6, SK, H7, moves=moves).in_words(initial=False).splitlines() == lines


def test_the_picture_has_suits_with_red_ones_in_red() -> None:
    rows = table(CA, D6, SK, H7).drawn().splitlines()
    assert [re.sub(r"\x1b\[\d+m", "", row) for row in rows] == [
        "Dealer  ▒▒ 7♥  (7)",
        "You     A♣ 6♦  (17)",
        "Moves: hit, stand",
    ]
    assert re.findall(r"\x1b\[31m(\S+?)\x1b\[0m", "".join(rows)) == ["7♥", "6♦"]
    assert "K♠ 7♥" in re.sub(r"\x1b\[\d+m", "", table(CA, D6, SK, H7, moves=(1,)).drawn())


def test_nothing_that_is_shown_depends_on_the_hidden_card() -> None:
    shown, numbers = set(), set()
    for hidden in set(range(52)) - {CA, D6, H7}:
        position = pyspiel.load_game("blackjack").new_initial_state()
        for card in (CA, D6, hidden, H7):
            position.apply_action(card)
        dealt = Table.of(position)
        shown.add((str(dealt), dealt.drawn(), dealt.in_words(initial=True)))
        numbers.add(tuple(position.observation_tensor(0)))
    assert len(shown) == len(numbers) == 1


def test_the_table_of_the_page_has_the_cards_and_what_they_count() -> None:
    observation = {
        "done": False,
        "hand": ["A", "6"],
        "total": 17,
        "dealer": ["K"],
        "dealer_total": 10,
        "text": "Moves: hit",
    }
    html = as_html(observation)
    assert re.findall(r'<td class="card">(\w+)</td>', html) == ["K", "A", "6"]
    assert 'class="card hidden" aria-label="a card that is face down"' in html
    assert re.findall(r'<th scope="row">([^<]+)<', html) == ["Dealer: 10", "You: 17"]
    assert html.endswith("<p>Moves: hit</p>")
    assert 'hidden" aria' not in as_html({**observation, "done": True})
