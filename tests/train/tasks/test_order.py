"""The order in which tasks are played."""

from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from openenv.train.tasks.order import interleaved, prompt_groups


@given(st.dictionaries(st.text(), st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 3))
def test_names_are_shared_out_and_spread(shares: dict[str, int], rounds: int) -> None:
    total = sum(shares.values())
    order = list(islice(interleaved(shares), rounds * total))
    assert {name: order.count(name) for name in shares} == {name: rounds * share for name, share in shares.items()}
    assert order == order[:total] * rounds
    for name, share in shares.items():
        for seen in range(total):
            assert abs(order[:seen].count(name) - seen * share / total) < len(shares)


@given(st.lists(st.integers(0, 2)))
def test_groups_are_runs_of_equal_prompts(numbers: list[int]) -> None:
    prompts = [[{"role": "user", "content": "", "task": number}] for number in numbers]
    groups = prompt_groups(prompts)
    assert [number for group in groups for number in group] == list(range(len(prompts)))
    for group in groups:
        assert all(prompts[number] == prompts[group[0]] for number in group)
    for group, following in pairwise(groups):
        assert prompts[group[0]] != prompts[following[0]]
