import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from blackjack_env import BlackjackAction, BlackjackObservation
from blackjack_env.player import is_hit, make_player
from blackjack_env.server.blackjack_environment import BlackjackEnvironment

Player = Callable[[BlackjackObservation], BlackjackAction]
Deck = tuple[int, ...]
"""How many cards count 1, 2, ... 10."""

FULL: Deck = (*[4] * 9, 16)
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def score(make: Callable[[int], Player], seeds: int) -> float:
    environment, rewards = BlackjackEnvironment(), []
    for seed in range(seeds):
        observation, player = environment.reset(seed=seed), make(seed)
        while not observation.done:
            observation = environment.step(player(observation))
        rewards.append(float(observation.reward or 0))
    return mean(rewards)


def make_random_player(seed: int) -> Player:
    random = Random(f"{seed}/player")
    return lambda _: BlackjackAction(move=random.choice(["hit", "stand"]))


def draws(deck: Deck) -> Iterator[tuple[int, float, Deck]]:
    """Each card that may come, with its probability and the deck after it."""
    cards = sum(deck)
    for card, left in enumerate(deck, start=1):
        if left:
            yield card, left / cards, (*deck[: card - 1], left - 1, *deck[card:])


@cache
def dealers_ends(deck: Deck, total: int, ace: bool) -> tuple[float, ...]:
    """How likely the dealer, who has less than 17, ends with 17, 18, 19, 20, 21, and more."""
    ends = [0.0] * 6
    for card, chance, rest in draws(deck):
        now, has_ace = total + card, ace or card == 1
        best = now + 10 if has_ace and now <= 11 else now
        if best >= 17:
            ends[min(best, 22) - 17] += chance
        else:
            for end, likely in enumerate(dealers_ends(rest, now, has_ace)):
                ends[end] += chance * likely
    return tuple(ends)


@cache
def expected_reward(deck: Deck, total: int, ace: bool, shown: int) -> float:
    """What the player's strategy gains on average from here."""
    if total > 21:
        return -1.0
    soft = ace and total <= 11
    best = total + 10 if soft else total
    if is_hit(best, soft, 11 if shown == 1 else shown):
        return sum(
            chance * expected_reward(rest, total + card, ace or card == 1, shown) for card, chance, rest in draws(deck)
        )
    ends = dealers_ends(deck, shown, shown == 1)
    return sum(likely * (1 if end == 22 or best > end else -(best < end)) for end, likely in enumerate(ends, start=17))


def exact_value() -> float:
    total = 0.0
    for shown, chance, deck in draws(FULL):
        for first, first_chance, after_first in draws(deck):
            for second, second_chance, rest in draws(after_first):
                value = expected_reward(rest, first + second, 1 in (first, second), shown)
                total += chance * first_chance * second_chance * value
    return total


def test_the_strategy_is_worth_what_the_readme_says_and_games_come_to_that() -> None:
    known = exact_value()
    stated = re.search(r"exactly (-[\d.]+)", README)
    assert stated is not None
    assert f"{known:.4f}" == stated[1]
    # A reward's standard deviation is below 1, so that these are four standard errors.
    assert score(make_player, 5000) == pytest.approx(known, abs=4 / 5000**0.5)


def test_the_player_and_a_random_one_score_what_the_readme_says() -> None:
    stated = re.search(r"mean reward (-[\d.]+); random moves have (-[\d.]+)", README)
    assert stated is not None
    assert (f"{score(make_player, 200):.2f}", f"{score(make_random_player, 200):.2f}") == stated.groups()
