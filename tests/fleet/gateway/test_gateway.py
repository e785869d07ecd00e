"""The address of a fleet: which of its clients are placed, and which only watch."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, Wire

from openenv.core.env_server.access.policy import AccessPolicy
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import ServerMode
from openenv.core.providers.resources import Resources
from openenv.fleet.gateway.forwarding import Forwarding
from openenv.fleet.gateway.gateway import Gateway
from openenv.fleet.gateway.sockets import SocketForwarding
from openenv.fleet.placement import Load
from openenv.fleet.plan import ServerPlan
from openenv.fleet.replica import Replica
from openenv.fleet.replica_server import StartedReplica
from openenv.fleet.replicas import Replicas
from openenv.fleet.status import FleetStatus, Phase


class OneServer:
    """A fleet with one server, which is no actor of Ray's.

    Attributes:
        replica: The server.
        replicas: All of them.
        running: The fleet's address.
    """

    def __init__(self, server: RunningServer) -> None:
        plan = ServerPlan("counter", "127.0.0.1", {}, Resources())
        self.replica = Replica(plan, 1)
        self.replica.started = StartedReplica("127.0.0.1", server.port, 1, "127.0.0.1", 4)
        self.replica.phase = Phase.SERVING
        self.replicas: Any = Replicas(plan, start_timeout_s=1, hang_s=1, free_resources=str)
        self.replicas._replicas[1] = self.replica
        self._forwarding = Forwarding(None, None)
        gateway = Gateway(self.replicas, self._forwarding, SocketForwarding(None, None), self._status)
        app = gateway.app(AccessPolicy.of(ServerConfig()), ServerMode.SIMULATION)
        app.router.lifespan_context = self._lifespan
        self.running = RunningServer(app)

    def placements(self) -> float:
        """Return how many clients were sent to the server, as the metrics have it."""
        with self.running.http() as http:
            found = re.search(r"^openenv_fleet_placements_total (.+)$", http.get("/metrics").text, re.MULTILINE)
        assert found is not None
        return float(found[1])

    @asynccontextmanager
    async def _lifespan(self, _app: Any) -> AsyncIterator[None]:
        yield
        await self._forwarding.close()

    def _status(self) -> FleetStatus:
        load = self.replica.load
        status = [self.replica.status()]
        return FleetStatus(address="", target=1, sessions=load.used, capacity=load.capacity, replicas=status)


@pytest.fixture
def fleet() -> Iterator[OneServer]:
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=4)) as server:
        fleet = OneServer(server)
        with fleet.running:
            yield fleet


@pytest.mark.parametrize("load", [Load(0, 4), Load(4, 4)])
def test_a_person_who_watches_takes_no_place_and_is_not_refused_one(fleet: OneServer, load: Load) -> None:
    fleet.replica.load = load
    with fleet.running.http() as http:
        for path in ("/schema", "/web/config"):
            assert http.get(path).status_code == 200
        assert http.post("/web/live/fork", headers={"X-OpenEnv-Session": "nothing"}).status_code == 404
    with Wire(f"ws://127.0.0.1:{fleet.running.port}/web/live/feed?session_id=nothing") as wire:
        assert "ended" in wire.receive()
    assert fleet.replica.expected_load == load
    assert fleet.replicas.refused == 0


def test_a_session_gets_a_place_and_only_a_redirect_counts_as_a_placement(fleet: OneServer) -> None:
    fleet.replica.load = Load(0, 4)
    with fleet.running.v1({"Origin": fleet.running.url}) as page:
        page.open()
    with fleet.running.http() as http:
        assert http.post("/reset").status_code == 200
    assert fleet.replica.expected_load == Load(2, 4)
    assert fleet.placements() == 0
    with fleet.running.v1() as client:
        client.open()
    assert fleet.replica.expected_load == Load(3, 4)
    assert fleet.placements() == 1
