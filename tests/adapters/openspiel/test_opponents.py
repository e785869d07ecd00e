from random import Random

import pytest

from openenv.adapters.openspiel.opponents import OpponentPolicy, opponent


@pytest.mark.parametrize(("policy", "chosen"), [("first", 3), ("middle", 7), ("last", 9)])
def test_fixed_policies_choose_by_place(policy: OpponentPolicy, chosen: int) -> None:
    choose = opponent(policy, Random(0))
    assert choose is not None
    assert choose([3, 5, 7, 9]) == chosen
    assert choose([4]) == 4


def test_the_random_policy_follows_its_generator_and_reaches_every_move() -> None:
    choose, again = opponent("random", Random(1)), opponent("random", Random(1))
    assert choose is not None
    assert again is not None
    chosen = [choose([3, 5, 7]) for _ in range(100)]
    assert chosen == [again([3, 5, 7]) for _ in range(100)]
    assert set(chosen) == {3, 5, 7}


def test_nobody_chooses_where_the_client_plays_all() -> None:
    assert opponent("self", Random(0)) is None
