"""Which server gets the next sessions, and how many of them."""

from hypothesis import given
from hypothesis import strategies as st

from openenv.fleet.placement import Load, granted, least_loaded

LOADS = st.lists(
    st.integers(1, 1000).flatmap(lambda capacity: st.builds(Load, st.integers(0, capacity + 5), st.just(capacity))),
    min_size=1,
    max_size=12,
)


def placed_all(loads: list[Load], wanted: int) -> list[Load]:
    """Place sessions as a client does, which comes back until all of them have a place."""
    loads = list(loads)
    while wanted:
        chosen = least_loaded(loads)
        count = granted(loads, chosen, wanted)
        if count == 0:
            break
        loads[chosen] = Load(loads[chosen].used + count, loads[chosen].capacity)
        wanted -= count
    return loads


def test_a_server_without_a_place_grants_none() -> None:
    assert granted([Load(5, 5), Load(9, 5)], 0, 3) == 0
    assert Load(9, 5).free == 0


def test_a_server_without_capacity_is_full() -> None:
    assert Load(0, 0).share == 1.0
    assert granted([Load(0, 0)], 0, 1) == 0


def test_of_equal_servers_the_larger_one_is_chosen() -> None:
    assert least_loaded([Load(0, 4), Load(0, 8), Load(0, 2)]) == 1


def test_a_vector_spreads_evenly() -> None:
    assert placed_all([Load(0, 600)] * 4, 2000) == [Load(500, 600)] * 4


def test_a_vector_fills_up_what_is_emptier() -> None:
    loads = placed_all([Load(400, 512), Load(100, 512), Load(100, 512), Load(100, 512)], 1200)
    assert [load.used for load in loads] == [475, 475, 475, 475]


def test_a_server_that_is_fuller_than_all_will_be_gets_nothing() -> None:
    loads = placed_all([Load(500, 512), Load(0, 512), Load(0, 512)], 100)
    assert [load.used for load in loads] == [500, 50, 50]


def test_a_larger_server_gets_more() -> None:
    assert [load.used for load in placed_all([Load(0, 100), Load(0, 300)], 200)] == [50, 150]


@given(LOADS, st.integers(1, 5000))
def test_as_many_are_placed_as_there_are_places_and_no_server_gets_too_many(loads: list[Load], wanted: int) -> None:
    after = placed_all(loads, wanted)
    assert sum(load.used for load in after) - sum(load.used for load in loads) == min(
        wanted, sum(load.free for load in loads)
    )
    for before, load in zip(loads, after, strict=True):
        assert load.used <= max(load.capacity, before.used)


@given(LOADS, st.integers(1, 5000))
def test_who_got_sessions_is_no_fuller_than_any_other_but_for_a_session(loads: list[Load], wanted: int) -> None:
    after = placed_all(loads, wanted)
    for before, load in zip(loads, after, strict=True):
        if load.used > before.used:
            least = min((other.used + 1) / other.capacity for other in after)
            assert (load.used - 1) / load.capacity <= least + 1e-9


@given(LOADS, st.integers(1, 5000))
def test_a_client_asks_each_server_once(loads: list[Load], wanted: int) -> None:
    chosen = least_loaded(loads)
    count = granted(loads, chosen, wanted)
    assert 0 <= count <= min(wanted, loads[chosen].free)
    assert count > 0 or loads[chosen].free == 0
