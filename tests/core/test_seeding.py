"""``rng``: the numbers that a seed determines."""

from openenv import rng


def test_a_seed_and_a_purpose_determine_the_numbers_for_good() -> None:
    assert rng(7, "player").getrandbits(32) == 2590850141
    assert rng("sql", "train", 3).getrandbits(32) == rng("sql/train/3").getrandbits(32) == 1404682515


def test_each_purpose_has_its_own_numbers() -> None:
    assert rng(7, "player").getrandbits(64) != rng(7, "dice").getrandbits(64)


def test_no_seed_gives_any_numbers() -> None:
    assert rng(None, "player").getrandbits(64) != rng(None, "player").getrandbits(64)
