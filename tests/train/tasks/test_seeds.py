"""Everything random in a run comes from its seed."""

from hypothesis import given
from hypothesis import strategies as st

from openenv.train.tasks.seeds import derived_seed, evaluation_seeds, training_seeds

SEED = st.integers(0, 2**40)


@given(SEED, SEED)
def test_no_evaluation_seed_is_a_training_seed(one: int, other: int) -> None:
    assert not set(training_seeds(one, 200)) & set(evaluation_seeds(other, 200))


@given(SEED, st.integers(1, 50))
def test_seeds_are_repeatable_and_do_not_depend_on_how_many_are_asked_for(seed: int, count: int) -> None:
    assert training_seeds(seed, 50)[:count] == training_seeds(seed, count)
    assert evaluation_seeds(seed, 50)[:count] == evaluation_seeds(seed, count)
    assert all(0 <= each < 2**31 for each in training_seeds(seed, count) + evaluation_seeds(seed, count))


@given(SEED)
def test_other_purposes_and_other_runs_have_other_seeds(seed: int) -> None:
    asked = [("weights",), ("vocabulary",), ("sampling", 1), ("sampling", 2), ("sampling 1", 2)]
    assert len({derived_seed(seed, *purpose) for purpose in asked}) == len(asked)
    assert derived_seed(seed, "weights") != derived_seed(seed + 1, "weights")
    assert training_seeds(seed, 20) != training_seeds(seed + 1, 20)


def test_the_seeds_are_these_for_good() -> None:
    assert derived_seed(1, "weights") == 102146274
    assert training_seeds(1, 2) == [376741578, 587303317]
    assert evaluation_seeds(1, 2) == [1799856485, 1521465978]
