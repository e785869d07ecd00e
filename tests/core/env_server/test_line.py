"""The line for places: first come, first served, whatever happens meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.env_server.line import Line
from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.places import Places, SharedCounts, WorkerPlaces
from openenv.core.exceptions import ClientCapacityError, DrainingError, SessionCapacityError

CLIENTS = ["a", "b", None]
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from(CLIENTS)),
        st.tuples(st.just("come"), st.sampled_from(CLIENTS)),
        st.tuples(st.just("fork"), st.sampled_from(CLIENTS), st.integers(1, 3)),
        st.tuples(st.just("give back"), st.integers(0, 9)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
    ),
    max_size=30,
)


def no_room(_client: str | None) -> bool:
    return False


def line_of(limit: int, client_limit: int | None = None, make_room: Callable[[str | None], bool] = no_room) -> Line:
    return Line(Places(limit), client_limit, make_room, Metrics())


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(5):
        await asyncio.sleep(0)


class Model:
    """A line as one would play it by hand."""

    def __init__(self, limit: int, client_limit: int) -> None:
        self.limit = limit
        self.client_limit = client_limit
        self.holders: list[str | None] = []
        self.waiting: list[tuple[int, str | None]] = []
        self.served: list[int] = []

    def has_room(self, client: str | None, count: int = 1) -> bool:
        return len(self.holders) + count <= self.limit and not self.is_over_its_own(client, count)

    def is_over_its_own(self, client: str | None, count: int = 1) -> bool:
        return client is not None and self.holders.count(client) + count > self.client_limit

    def serve(self) -> None:
        for waiter in list(self.waiting):
            number, client = waiter
            if self.has_room(client):
                self.waiting.remove(waiter)
                self.holders.append(client)
                self.served.append(number)


@given(ACTS, st.integers(0, 4), st.integers(1, 3))
def test_it_serves_as_a_model_does(acts: list[tuple[str, ...]], limit: int, client_limit: int) -> None:
    async def play() -> None:
        metrics = Metrics()
        line = Line(Places(limit), client_limit, no_room, metrics)
        model, served = Model(limit, client_limit), list[int]()
        tasks: dict[int, asyncio.Task[None]] = {}

        async def stand(number: int, client: str | None) -> None:
            await line.wait(client, 60)
            served.append(number)

        for number, (act, *more) in enumerate(acts):
            if act == "wait":
                (client,) = more
                tasks[number] = asyncio.create_task(stand(number, client))
                model.waiting.append((number, client))
            elif act in ("come", "fork"):
                client, count = more[0], int(more[1]) if act == "fork" else 1
                if model.has_room(client, count):
                    line.take(client, count)
                    model.holders += [client] * count
                else:
                    with pytest.raises(SessionCapacityError) as refused:
                        line.take(client, count)
                    assert isinstance(refused.value, ClientCapacityError) is model.is_over_its_own(client, count)
            elif act == "give back" and model.holders:
                line.give_back(model.holders.pop(int(more[0]) % len(model.holders)))
            elif act == "leave" and model.waiting:
                gone, _ = model.waiting.pop(int(more[0]) % len(model.waiting))
                tasks[gone].cancel()
            model.serve()
            await settle()
            assert served == model.served
            assert line.places.taken == len(model.holders)
            assert metrics.waiting == len(model.waiting)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert metrics.waiting == 0

    asyncio.run(play())


async def test_who_waits_in_vain_is_told_the_counts() -> None:
    line = line_of(2, client_limit=1)
    line.take("a")
    line.take("b")
    with pytest.raises(SessionCapacityError, match="2/2") as full:
        await line.wait("c", 0.02)
    assert full.value.details == {"active_sessions": 2, "max_sessions": 2}
    with pytest.raises(ClientCapacityError) as own:
        await line.wait("a", 0.02)
    assert own.value.details == {"active_sessions": 1, "max_sessions": 1, "scope": "client"}


async def test_a_place_that_comes_as_its_waiter_goes_is_not_lost() -> None:
    line = line_of(1)
    line.take(None)
    going, staying = (asyncio.create_task(line.wait(None, 60)) for _ in range(2))
    await settle()
    line.give_back(None)
    going.cancel()  # it holds the place already, and does not know yet
    with pytest.raises(asyncio.CancelledError):
        await going
    await asyncio.wait_for(staying, 60)
    assert line.places.taken == 1


async def test_many_places_are_taken_all_or_none() -> None:
    line = line_of(4)
    line.take("a", 3)
    with pytest.raises(SessionCapacityError, match="3/4 sessions active, which leaves no room for 2 more"):
        line.take("b", 2)
    assert line.places.taken == 3
    line.give_back("a", 3)
    line.take("b", 4)
    assert line.places.taken == 4


async def test_room_is_made_for_the_first_in_line_alone() -> None:
    yielding: list[str] = []
    given_up: Counter[str | None] = Counter()

    def make_room(client: str | None) -> bool:
        given_up[client] += 1
        if not yielding:
            return False
        line.give_back(yielding.pop())
        return True

    line = line_of(2, make_room=make_room)
    line.take("x", 2)
    first, second = (asyncio.create_task(line.wait(client, 60)) for client in "ab")
    await settle()
    yielding.append("x")  # nobody tells the line, which looks again soon
    await asyncio.wait_for(first, 60)
    assert not second.done()
    yielding.append("x")
    await asyncio.wait_for(second, 60)
    assert line.places.taken == 2


async def test_a_client_at_its_own_limit_makes_room_among_its_own() -> None:
    asked: list[str | None] = []

    def make_room(client: str | None) -> bool:
        asked.append(client)
        line.give_back("a")
        return True

    line = line_of(9, client_limit=1, make_room=make_room)
    line.take("a")
    line.take("a")
    assert asked == ["a"]
    assert line.places.taken == 1


async def test_those_who_wait_are_told_that_the_server_ends() -> None:
    line = line_of(1)
    line.take(None)
    waiting = [asyncio.create_task(line.wait(None, 60)) for _ in range(3)]
    await settle()
    line.drain()
    for told in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(told, DrainingError)
        assert told.details == {"active_sessions": 1, "max_sessions": 1, "draining": True}
    line.give_back(None)
    with pytest.raises(DrainingError):
        line.take(None)
    with pytest.raises(DrainingError):
        await line.wait(None, 60)
    assert line.places.taken == 0


async def test_a_place_of_another_worker_is_noticed_and_not_overtaken_for() -> None:
    with SharedCounts.create(2) as counts:
        here, there = WorkerPlaces(1, counts, 0), WorkerPlaces(1, counts, 1)
        line = Line(here, None, no_room, Metrics())
        assert there.take()
        waiting = asyncio.create_task(line.wait("a", 60))
        await settle()
        there.give_back()
        with pytest.raises(SessionCapacityError):
            line.take("b")  # a newcomer, before the line has looked again
        await asyncio.wait_for(waiting, 60)
        assert (counts[0], counts[1]) == (1, 0)
