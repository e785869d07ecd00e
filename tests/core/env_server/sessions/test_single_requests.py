"""Environments that answer a single request: how many there are at a time, and which answers need none."""

import asyncio
import threading
from functools import partial
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Gate, GatedEnvironment, Total

from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.single_requests import SingleRequestSlots
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.tools import tool
from openenv.core.env_server.types import EnvironmentMetadata, State
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import SessionCapacityError


class Counted(CounterEnvironment):
    """Knows how many of its kind there are, and were at most."""

    lock = threading.Lock()
    alive = most = made = 0

    def __init__(self) -> None:
        super().__init__()
        with Counted.lock:
            Counted.alive += 1
            Counted.made += 1
            Counted.most = max(Counted.most, Counted.alive)

    def close(self) -> None:
        with Counted.lock:
            Counted.alive -= 1


class ThreadedCounted(Counted):
    BLOCKING = True


@pytest.fixture(autouse=True)
def _count_anew() -> None:
    Counted.alive = Counted.most = Counted.made = 0


def sessions_of(environment: Any, **limits: Any) -> SessionManager:
    return SessionManager(EnvironmentFactory(environment), EnvironmentTypes(Add, Total, State), ServerConfig(**limits))


async def step_once(sessions: SessionManager, amount: int = 1) -> None:
    async with sessions.temporary_session() as session:
        await session.step({"amount": amount})


class TestSlots:
    async def test_they_go_to_those_who_wait_in_the_order_in_which_they_came(self) -> None:
        slots, order = SingleRequestSlots(1), []

        async def use(number: int) -> None:
            await slots.acquire()
            order.append(number)
            await asyncio.sleep(0)
            slots.release()

        uses = [asyncio.create_task(use(number)) for number in range(20)]
        await asyncio.sleep(0)
        uses[10].cancel()
        await asyncio.gather(*uses, return_exceptions=True)
        assert order == [number for number in range(20) if number != 10]
        assert slots.in_use == 0

    async def test_neither_too_many_wait_nor_for_too_long(self) -> None:
        slots = SingleRequestSlots(1, max_wait_s=0.01, max_waiting=1)
        for _ in range(slots.limit):
            await slots.acquire()
        waits = asyncio.create_task(slots.acquire())
        await asyncio.sleep(0)
        with pytest.raises(SessionCapacityError, match="creates up to 4 environments at a time"):
            await slots.acquire()
        with pytest.raises(SessionCapacityError, match="Open a session and name it, or try again later"):
            await waits


class TestTemporarySessions:
    @pytest.mark.level("files")
    async def test_a_crowd_is_answered_by_few_environments(self) -> None:
        sessions = sessions_of(ThreadedCounted, max_sessions=1)
        await asyncio.gather(*(step_once(sessions) for _ in range(400)))
        assert (Counted.made, Counted.alive) == (400, 0)
        assert Counted.most <= 4
        await sessions.close_all()

    async def test_a_factory_that_fails_holds_no_slot(self) -> None:
        sessions = sessions_of(partial(int, "x"), max_sessions=1)
        for _ in range(9):
            with pytest.raises(Exception, match="failed to create instance"):
                await step_once(sessions)

    async def test_the_answer_does_not_wait_for_an_environment_that_hangs_in_close(self, gate: Gate) -> None:
        class Lingering(GatedEnvironment):
            def close(self) -> None:
                gate.pass_through()

        sessions = sessions_of(partial(Lingering, gate), max_sessions=1, max_wait_s=0.0)
        async with asyncio.timeout(30):
            await asyncio.gather(*(step_once(sessions) for _ in range(4)))
            with pytest.raises(SessionCapacityError):  # what it has not closed it still holds
                await step_once(sessions)
        gate.opened.set()
        await sessions.close_all()
        await step_once(sessions)


class Described(ThreadedCounted):
    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="described", description="A counter.", version="1.2.3")


class Handy(Environment):
    """Has a tool, and counts how often it is made."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    @tool
    def greet(self) -> str:
        """Greet."""
        return "hello"

    def reset(self) -> Total:
        return Total(total=0)

    def __init__(self) -> None:
        super().__init__()
        with Counted.lock:
            Counted.made += 1


class TestServed:
    def test_beyond_the_bound_clients_hear_when_to_ask_again(self, serve: Serve, gate: Gate) -> None:
        held = {"action": {"amount": 9}}
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=1, max_wait_s=0.0)
        with server.http() as http, gate.open_afterwards():
            askers = [threading.Thread(target=partial(http.post, "/step", json=held)) for _ in range(4)]
            for asker in askers:
                asker.start()
            for _ in askers:
                gate.wait_until_entered()
            refused = [http.post("/step", json=held) for _ in range(40)]
            assert {answer.status_code for answer in refused} == {503}
            assert {answer.json()["code"] for answer in refused} == {"CAPACITY_REACHED"}
            assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
            assert gate.calls.count("make") == 4
            gate.opened.set()
            for asker in askers:
                asker.join(60)
            assert http.post("/step", json={"action": {"amount": 1}}).status_code == 200

    def test_what_the_environment_is_takes_one_of_it(self, serve: Serve) -> None:
        with serve(Described).http() as http:
            for _ in range(5):
                assert http.get("/metadata").json()["version"] == "1.2.3"
        assert Counted.made == 1

    def test_metadata_that_failed_is_asked_for_again(self, serve: Serve) -> None:
        class Forgetful(Described):
            def get_metadata(self) -> EnvironmentMetadata:
                if Counted.made == 1:
                    raise ValueError("not yet")
                return super().get_metadata()

        with serve(Forgetful).http() as http:
            assert [http.get("/metadata").status_code for _ in range(3)] == [500, 200, 200]
        assert Counted.made == 2

    def test_the_tools_of_a_class_are_listed_without_an_instance(self, serve: Serve) -> None:
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        with serve(Handy, CallToolAction).http() as http:
            tools = http.post("/mcp", json=listing).json()["result"]["tools"]
            assert [one["name"] for one in tools] == ["greet"]
            named = {"x-session-id": "anyone"}
            assert [one["name"] for one in http.get("/tools", headers=named).json()["tools"]] == ["greet"]
            assert Counted.made == 0
            with http.stream(
                "POST", "/mcp", json={**listing, "method": "tools/call", "params": {"name": "greet"}}
            ) as _:
                pass
            assert Counted.made == 1

    def test_a_state_that_hangs_has_an_end(self, serve: Serve, gate: Gate) -> None:
        class Stuck(GatedEnvironment):
            @property
            def state(self) -> State:
                gate.pass_through()
                return State()

            def get_metadata(self) -> EnvironmentMetadata:
                gate.pass_through()
                return super().get_metadata()

        settings = {"step_timeout_s": 0.05, "reset_timeout_s": 0.05}
        with serve(partial(Stuck, gate), **settings).http() as http, gate.open_afterwards():
            assert http.get("/state").status_code == 504
            assert http.get("/metadata").status_code == 504
