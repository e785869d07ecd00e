"""The queue for slots: clients take turns in it, and so do the connections of each, whatever happens meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.env_server.capacity.capacity import MOST_WAITING_OF_CLIENT, MOST_WAITING_OF_CONNECTION, Capacity
from openenv.core.env_server.capacity.slots import SharedCounts, Slots, WorkerSlots
from openenv.core.env_server.metrics import Metrics
from openenv.core.exceptions import ClientCapacityError, DrainingError, SessionCapacityError

CLIENTS = ["a", "b", None]
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from(CLIENTS), st.integers(1, 2)),
        st.tuples(st.just("come"), st.sampled_from(CLIENTS)),
        st.tuples(st.just("fork"), st.sampled_from(CLIENTS), st.integers(1, 3)),
        st.tuples(st.just("give back"), st.integers(0, 9)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
    ),
    max_size=30,
)


def no_eviction(_client: str | None) -> bool:
    return False


def capacity_of(
    limit: int, client_limit: int | None = None, evict: Callable[[str | None], bool] = no_eviction
) -> Capacity:
    return Capacity(Slots(limit), client_limit, evict, Metrics())


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(5):
        await asyncio.sleep(0)


class Model:
    """A capacity as one would play it by hand: lists of who is next, searched from the front."""

    def __init__(self, limit: int, client_limit: int) -> None:
        self.limit = limit
        self.client_limit = client_limit
        self.holders: list[str | None] = []
        self.waiting: list[tuple[int, str | None, int]] = []
        self.clients: list[str | None] = []
        self.connections: list[tuple[str | None, int]] = []
        self.served: list[int] = []

    def has_slot(self, client: str | None, count: int = 1) -> bool:
        return len(self.holders) + count <= self.limit and not self.is_over_its_own(client, count)

    def is_over_its_own(self, client: str | None, count: int = 1) -> bool:
        return client is not None and self.holders.count(client) + count > self.client_limit

    def wait(self, number: int, client: str | None, connection: int) -> None:
        self.waiting.append((number, client, connection))
        self.forget_who_does_not_wait()
        if client not in self.clients:
            self.clients.append(client)
        if (client, connection) not in self.connections:
            self.connections.append((client, connection))

    def forget_who_does_not_wait(self) -> None:
        self.clients = [name for name in self.clients if any(client == name for _, client, _ in self.waiting)]
        self.connections = [name for name in self.connections if any(waiter[1:] == name for waiter in self.waiting)]

    def serve(self) -> None:
        self.forget_who_does_not_wait()
        while client := next(((name,) for name in self.clients if self.has_slot(name)), None):
            connection = next(name for name in self.connections if name[0] == client[0])
            waiter = next(waiter for waiter in self.waiting if waiter[1:] == connection)
            self.waiting.remove(waiter)
            self.holders.append(client[0])
            self.served.append(waiter[0])
            self.clients.remove(client[0])
            self.clients.append(client[0])
            self.connections.remove(connection)
            self.connections.append(connection)
            self.forget_who_does_not_wait()


@given(ACTS, st.integers(0, 4), st.integers(1, 3))
def test_it_serves_as_a_model_does(acts: list[tuple[str, ...]], limit: int, client_limit: int) -> None:
    async def play() -> None:
        metrics = Metrics()
        capacity = Capacity(Slots(limit), client_limit, no_eviction, metrics)
        model, served = Model(limit, client_limit), list[int]()
        tasks: dict[int, asyncio.Task[None]] = {}

        async def stand(number: int, client: str | None, connection: int) -> None:
            await capacity.wait(client, 60, connection)
            served.append(number)

        for number, (act, *more) in enumerate(acts):
            if act == "wait":
                client, connection = more[0], int(more[1])
                tasks[number] = asyncio.create_task(stand(number, client, connection))
                model.wait(number, client, connection)
            elif act in ("come", "fork"):
                client, count = more[0], int(more[1]) if act == "fork" else 1
                if model.has_slot(client, count):
                    capacity.acquire(client, count)
                    model.holders += [client] * count
                else:
                    with pytest.raises(SessionCapacityError) as refused:
                        capacity.acquire(client, count)
                    assert isinstance(refused.value, ClientCapacityError) is model.is_over_its_own(client, count)
            elif act == "give back" and model.holders:
                capacity.release(model.holders.pop(int(more[0]) % len(model.holders)))
            elif act == "leave" and model.waiting:
                gone, *_ = model.waiting.pop(int(more[0]) % len(model.waiting))
                tasks[gone].cancel()
            model.serve()
            await settle()
            assert served == model.served
            assert capacity.slots.in_use == len(model.holders)
            assert metrics.waiting == len(model.waiting)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert metrics.waiting == 0

    asyncio.run(play())


async def test_who_waits_in_vain_is_told_the_counts() -> None:
    capacity = capacity_of(2, client_limit=1)
    capacity.acquire("a")
    capacity.acquire("b")
    with pytest.raises(SessionCapacityError, match="2/2") as full:
        await capacity.wait("c", 0.02)
    assert full.value.details == {"active_sessions": 2, "max_sessions": 2}
    with pytest.raises(ClientCapacityError) as own:
        await capacity.wait("a", 0.02)
    assert own.value.details == {"active_sessions": 1, "max_sessions": 1, "scope": "client"}


async def test_one_client_among_many_requests_of_another_is_next() -> None:
    capacity, served = capacity_of(1), list[str]()
    capacity.acquire("a")

    async def stand(client: str, connection: str) -> None:
        await capacity.wait(client, 60, connection)
        served.append(connection)
        capacity.release(client)

    greedy = [asyncio.create_task(stand("a", "first")) for _ in range(100)]
    await settle()
    others = [asyncio.create_task(stand("a", "second")), asyncio.create_task(stand("b", "third"))]
    await settle()
    capacity.release("a")
    await asyncio.wait_for(asyncio.gather(*greedy, *others), 60)
    assert served[:3] == ["first", "third", "second"]
    assert len(served) == 102


async def test_who_has_too_many_waiting_is_refused_and_others_are_not() -> None:
    metrics = Metrics()
    capacity = Capacity(Slots(1), None, no_eviction, metrics)
    capacity.acquire("a")
    waiting = [asyncio.create_task(capacity.wait("a", 60, "first")) for _ in range(MOST_WAITING_OF_CONNECTION)]
    await settle()
    with pytest.raises(SessionCapacityError, match=f"and {MOST_WAITING_OF_CONNECTION} requests of this connection"):
        await capacity.wait("a", 60, "first")
    waiting.append(asyncio.create_task(capacity.wait("a", 60, "second")))
    await settle()
    assert metrics.waiting == MOST_WAITING_OF_CONNECTION + 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert metrics.waiting == 0
    assert capacity.slots.in_use == 1


@pytest.mark.level("socket")
async def test_all_connections_of_a_client_may_have_only_so_many_waiting() -> None:
    metrics = Metrics()
    capacity = Capacity(Slots(1), None, no_eviction, metrics)
    capacity.acquire(None)
    connections = MOST_WAITING_OF_CLIENT // MOST_WAITING_OF_CONNECTION
    waiting = [asyncio.create_task(capacity.wait("a", 60, n % connections)) for n in range(MOST_WAITING_OF_CLIENT)]
    await settle()
    with pytest.raises(SessionCapacityError, match="requests of this client are queued already"):
        await capacity.wait("a", 60, "another")
    waiting.append(asyncio.create_task(capacity.wait("b", 60)))
    await settle()
    assert metrics.waiting == MOST_WAITING_OF_CLIENT + 1
    capacity.drain()
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in told} == {DrainingError}


async def test_a_place_that_comes_as_its_waiter_goes_is_not_lost() -> None:
    capacity = capacity_of(1)
    capacity.acquire(None)
    going, staying = (asyncio.create_task(capacity.wait(None, 60)) for _ in range(2))
    await settle()
    capacity.release(None)
    going.cancel()  # it has been assigned the slot, and has not resumed yet
    with pytest.raises(asyncio.CancelledError):
        await going
    await asyncio.wait_for(staying, 60)
    assert capacity.slots.in_use == 1


async def test_many_places_are_taken_all_or_none() -> None:
    capacity = capacity_of(4)
    capacity.acquire("a", 3)
    with pytest.raises(SessionCapacityError, match="3/4 sessions active, and 2 more were requested"):
        capacity.acquire("b", 2)
    assert capacity.slots.in_use == 3
    capacity.release("a", 3)
    capacity.acquire("b", 4)
    assert capacity.slots.in_use == 4


async def test_a_session_is_evicted_for_the_first_in_the_queue_alone() -> None:
    yielding: list[str] = []
    given_up: Counter[str | None] = Counter()

    def evict(client: str | None) -> bool:
        given_up[client] += 1
        if not yielding:
            return False
        capacity.release(yielding.pop())
        return True

    capacity = capacity_of(2, evict=evict)
    capacity.acquire("x", 2)
    first, second = (asyncio.create_task(capacity.wait(client, 60)) for client in "ab")
    await settle()
    yielding.append("x")  # the capacity polls for this
    await asyncio.wait_for(first, 60)
    assert not second.done()
    yielding.append("x")
    await asyncio.wait_for(second, 60)
    assert capacity.slots.in_use == 2


async def test_a_client_at_its_own_limit_makes_room_among_its_own() -> None:
    asked: list[str | None] = []

    def evict(client: str | None) -> bool:
        asked.append(client)
        capacity.release("a")
        return True

    capacity = capacity_of(9, client_limit=1, evict=evict)
    capacity.acquire("a")
    capacity.acquire("a")
    assert asked == ["a"]
    assert capacity.slots.in_use == 1


async def test_those_who_wait_are_told_that_the_server_ends() -> None:
    capacity = capacity_of(1)
    capacity.acquire(None)
    waiting = [asyncio.create_task(capacity.wait(None, 60)) for _ in range(3)]
    await settle()
    capacity.drain()
    for told in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(told, DrainingError)
        assert told.details == {"active_sessions": 1, "max_sessions": 1, "draining": True}
    capacity.release(None)
    with pytest.raises(DrainingError):
        capacity.acquire(None)
    with pytest.raises(DrainingError):
        await capacity.wait(None, 60)
    assert capacity.slots.in_use == 0


async def test_a_place_of_another_worker_is_noticed_and_not_overtaken_for() -> None:
    with SharedCounts.create(2) as counts:
        here, there = WorkerSlots(1, counts, 0), WorkerSlots(1, counts, 1)
        capacity = Capacity(here, None, no_eviction, Metrics())
        assert there.acquire()
        waiting = asyncio.create_task(capacity.wait("a", 60))
        await settle()
        there.release()
        with pytest.raises(SessionCapacityError):
            capacity.acquire("b")  # a newcomer, before the next poll
        await asyncio.wait_for(waiting, 60)
        assert (counts[0], counts[1]) == (1, 0)
