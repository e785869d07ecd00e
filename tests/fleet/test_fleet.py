"""A fleet on a real Ray: placed, killed, hung, scaled and updated while episodes are played."""

import asyncio
import os
import re
import signal
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from tests.chaos.environments import LENGTH, ChainEnvironment, Move
from tests.support.servers import V1Wire, Wire, eventually
from tests.support.services.postgres import running_postgres

from openenv import GenericEnvClient
from openenv.core.env_server.tls import TLS
from openenv.core.exceptions import (
    ConfigurationError,
    OpenEnvError,
    ProviderError,
    ServerCapacityError,
    ServerUnauthorizedError,
)
from openenv.core.providers.resources import Resources
from openenv.core.sync_client import SyncEnvClient
from openenv.fleet import Autoscaling, Fleet, ReplicaStatus
from openenv.traces import open as open_traces

REPLICAS = 4
PLACES = 600
# A frame of three times as much is still read, and here it is longer than by default.
MESSAGE_MB = 17.0
# So many sessions that each server gets some, even if one of them was slow to say how many it has.
SEVERAL = 64 * REPLICAS
SESSIONS = 2000
WINDOW_S = 90.0
# Four servers that start at once while other tests keep the processors busy; it guards against hanging only.
START_S = 600
SMALL: Any = {"resources": Resources(cpus=0.1), "start_timeout_s": START_S, "resume_window_s": WINDOW_S}
"""A further fleet, on the Ray of the first one."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    journal = tmp_path_factory.mktemp("fleet") / "journal"
    settings: Any = {
        "max_sessions": PLACES,
        "max_message_size_mb": MESSAGE_MB,
        "journal": journal,
        "hang_s": 10.0,
        "start_timeout_s": START_S,
        "resume_window_s": WINDOW_S,
    }
    with Fleet(ChainEnvironment, replicas=REPLICAS, drain_s=1.0, **settings) as fleet:
        yield fleet


@pytest.fixture(autouse=True)
def _as_at_the_beginning(fleet: Fleet) -> None:
    """Begin with the same number of servers, none of which holds a session."""
    eventually(lambda: len(serving(fleet)) == REPLICAS, "all replicas serve")
    eventually(lambda: fleet.status().sessions == 0, "no session is left", timeout_s=2 * WINDOW_S)


def serving(fleet: Fleet) -> list[ReplicaStatus]:
    return [replica for replica in fleet.status().replicas if replica.phase == "serving"]


def figure(fleet: Fleet, name: str) -> float:
    """The sum of a metric over all servers."""
    lines = httpx.get(f"{fleet.address}/metrics", timeout=60).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}[ {{]", line))


def session_workers(fleet: Fleet) -> set[str]:
    """The servers that have the sessions in the fleet's table, of which there must never be more than there are."""
    table = httpx.get(f"{fleet.address}/sessions", timeout=60).json()
    assert table["total"] <= SEVERAL
    return {row["worker"] for row in table["sessions"]}


def are_on_every_server(env: SyncEnvClient[Any, Any, Any], fleet: Fleet) -> bool:
    """Open and close many sessions, and return whether the table had some of each server.

    A server that is slow, as all may be on a busy machine, is given none, or is missing from the table.
    """
    games = env.vector(SEVERAL)
    try:
        games.reset(seeds=range(SEVERAL))
        return session_workers(fleet) == {str(replica.number) for replica in serving(fleet)}
    finally:
        games.close()


def pids(fleet: Fleet) -> set[int]:
    return {replica.pid for replica in serving(fleet)}


def undisturbed(seed: int, steps: int) -> list[float | None]:
    """The rewards of an episode, played here."""
    environment = ChainEnvironment()
    environment.reset(seed=seed)
    return [environment.step(Move(amount=seed + step)).reward for step in range(steps)]


@asynccontextmanager
async def client(fleet: Fleet, **settings: Any) -> AsyncIterator[GenericEnvClient]:
    async with GenericEnvClient(base_url=fleet.address, token=fleet.token, message_timeout_s=120.0, **settings) as env:
        yield env


def assert_taken_over(holder: ReplicaStatus, other: ReplicaStatus, token: str | None = None) -> None:
    """Play an episode on at another server while its own hangs, which does not go on with it when it is back."""
    headers = None if token is None else {"Authorization": f"Bearer {token}"}
    with V1Wire(f"ws://{holder.address}/ws", headers) as wire:
        opened = wire.ask({"type": "open", "id": 1})
        session, resume_token = opened["session"], opened["data"]["token"]
        assert session.startswith(f"{holder.number}.")
        wire.ask(wire.message("reset", session, seed=5))
        first = wire.ask(wire.message("step", session, amount=5))
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            with V1Wire(f"ws://{other.address}/ws", headers) as wire_to_other:
                data = {"token": resume_token, "answered": 2}
                attached = wire_to_other.ask({"type": "attach", "id": 1, "session": session, "data": data})
                assert attached["type"] == "attached", attached
                step = {"type": "step", "id": 3, "session": session, "data": {"amount": 6}}
                second = wire_to_other.ask(step)
                os.kill(holder.pid, signal.SIGCONT)
                stale = wire.ask(step)
                wire_to_other.ask({"type": "close", "id": 4, "session": session})
        finally:
            os.kill(holder.pid, signal.SIGCONT)
    assert [answer["data"]["reward"] for answer in (first, second)] == undisturbed(5, 2)
    assert stale["type"] == "error", stale


async def play(fleet: Fleet, sessions: int, disturb: Callable[[], None]) -> None:
    """Play episodes in many sessions until they have been disturbed, which begins amid the first ones."""
    disturbing: asyncio.Task[None] | None = None
    async with client(fleet) as env:
        games = await env.vector(sessions)
        while disturbing is None or not disturbing.done():
            await games.reset(seeds=range(sessions))
            rewards: list[list[Any]] = [[] for _ in range(sessions)]
            for step in range(LENGTH):
                stepping = asyncio.create_task(games.step([{"amount": seed + step} for seed in range(sessions)]))
                if step == 2 and disturbing is None:
                    await asyncio.sleep(0)  # what is asked is on its way
                    disturbing = asyncio.create_task(asyncio.to_thread(disturb))
                for seed, result in enumerate(await stepping):
                    rewards[seed].append(getattr(result, "reward", result))
            assert rewards == [undisturbed(seed, LENGTH) for seed in range(sessions)]
    await disturbing


async def test_a_vector_spreads_over_all_servers_with_a_handshake_for_each(fleet: Fleet) -> None:
    async with client(fleet) as env:
        before = figure(fleet, "openenv_fleet_placements_total")
        games = await env.vector(SESSIONS)
        await games.reset(seeds=range(SESSIONS))
        await asyncio.to_thread(eventually, lambda: fleet.status().sessions == SESSIONS, "all are counted")
        assert all(abs(replica.sessions - SESSIONS / REPLICAS) <= 2 for replica in serving(fleet))
        assert figure(fleet, "openenv_fleet_placements_total") - before <= 2 * REPLICAS + 2


async def test_no_episode_is_lost_when_a_server_is_killed(fleet: Fleet) -> None:
    victim = serving(fleet)[1]
    await play(fleet, SESSIONS, lambda: os.kill(victim.pid, signal.SIGKILL))
    assert victim.pid not in pids(fleet)
    assert len(serving(fleet)) == REPLICAS


def test_servers_get_as_much_of_a_busy_processor_as_the_process_that_started_them(fleet: Fleet) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids(fleet)] == [own] * REPLICAS


def test_a_server_that_hangs_is_replaced_and_who_waits_for_it_over_http_is_told(fleet: Fleet) -> None:
    answers: list[httpx.Response] = []
    with httpx.Client(base_url=fleet.address, timeout=120) as http:
        http.post("/reset", json={"seed": 4}).raise_for_status()
        number = int(http.cookies["openenv_session"].partition(".")[0])
        victim = next(replica for replica in serving(fleet) if replica.number == number)

        def hang() -> None:
            os.kill(victim.pid, signal.SIGSTOP)
            answers.append(http.post("/step", json={"action": {"amount": 4}}))

        asyncio.run(play(fleet, 200, hang))
    assert answers[0].status_code == 502, answers[0].text
    assert answers[0].json()["detail"].startswith("The server has gone before")
    assert victim.number not in {replica.number for replica in fleet.status().replicas}
    with pytest.raises(ProcessLookupError):
        os.kill(victim.pid, 0)


async def test_servers_come_and_go_under_load(fleet: Fleet) -> None:
    def there_and_back() -> None:
        fleet.scale(REPLICAS + 1)
        assert len(serving(fleet)) == REPLICAS + 1
        fleet.scale(REPLICAS)

    await play(fleet, 400, there_and_back)
    assert len(fleet.status().replicas) == REPLICAS


def test_servers_that_are_being_replaced_count_when_there_are_to_be_fewer(fleet: Fleet) -> None:
    victims = serving(fleet)[:2]
    try:
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        eventually(lambda: len(serving(fleet)) == REPLICAS - 2, "the fleet has noticed")
        fleet.scale(1)
        assert [replica.phase for replica in fleet.status().replicas] == ["serving"]
    finally:
        fleet.scale(REPLICAS)


async def test_all_servers_are_updated_under_load(fleet: Fleet) -> None:
    before = pids(fleet)
    await play(fleet, 400, fleet.update)
    assert not before & pids(fleet)
    assert len(serving(fleet)) == REPLICAS


async def test_a_server_that_comes_back_has_lost_its_sessions_to_another(fleet: Fleet) -> None:
    holder, other = serving(fleet)[:2]
    assert_taken_over(holder, other)


def test_sessions_go_on_in_another_server_and_another_fleet_by_a_database(fleet: Fleet) -> None:
    with running_postgres() as postgres:
        shared = {**SMALL, "journal": postgres.new_database(), "token": "sesame"}
        with Fleet(ChainEnvironment, **shared) as first, Fleet(ChainEnvironment, **shared) as second:
            victim = serving(first)[0]
            asyncio.run(play(first, 50, lambda: os.kill(victim.pid, signal.SIGKILL)))
            with pytest.raises(ConfigurationError, match=r"journal, token can't change while a fleet runs"):
                second.update(journal="journal", token="another")
            assert_taken_over(serving(first)[0], serving(second)[0], "sesame")


def test_a_certificate_and_a_token_hold_for_the_servers_too(fleet: Fleet, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", serving(fleet)[0].node)
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    tls = TLS(str(tmp_path / "server.pem"))
    tokens = tmp_path / "tokens.toml"
    tokens.write_text('[trainer]\ntoken = "open-wide"\nrole = "play"\n[watcher]\ntoken = "wide-eyed"\nrole = "watch"\n')
    traces = tmp_path / "traces.db"
    with (
        Fleet(ChainEnvironment, tls=tls, auth="always", tokens=tokens, traces=traces, **SMALL) as safe,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        with GenericEnvClient(base_url=safe.address, token=safe.token).sync() as env:
            assert env.reset(seed=1).observation["steps"] == 0
            assert env.schemas().keys() >= {"action"}
            trusted = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
            key = {"Authorization": f"Bearer {safe.token}"}
            listed = httpx.get(f"{safe.address}/sessions", headers=key, verify=trusted)
            assert [session["steps"] for session in listed.json()["sessions"]] == [0]
        for token in ("another", ""):  # on loopback, too
            with pytest.raises(ServerUnauthorizedError):
                GenericEnvClient(base_url=safe.address, token=token).sync().reset()
        assert_names_hold(safe, tokens, trusted)
        with pytest.raises(ConfigurationError, match="runs already"):
            safe.start()
    with pytest.raises(ConfigurationError, match="not running"):
        safe.address  # noqa: B018  # a property that checks
    safe.close()
    with open_traces(traces) as recorded:
        assert Counter(found.token_name for found in recorded.episodes()) == {None: 1, "trainer": 2}
    assert len(serving(fleet)) == REPLICAS


def clients_of(http: httpx.Client, headers: dict[str, str]) -> list[str]:
    return [row["client"] for row in http.get("/sessions", headers=headers).json()["sessions"]]


def assert_names_hold(fleet: Fleet, tokens: Path, trusted: ssl.SSLContext) -> None:
    """Check that clients over HTTP and the WebSocket are those of their named token, until that is removed."""
    trainer, watcher = ({"Authorization": f"Bearer {token}"} for token in ("open-wide", "wide-eyed"))
    with httpx.Client(base_url=fleet.address, verify=trusted, timeout=60) as http:
        named = {"X-OpenEnv-Session": http.post("/reset", headers=trainer).headers["X-OpenEnv-Session"], **trainer}
        assert http.post("/reset", headers=watcher).status_code == 403
        with GenericEnvClient(base_url=fleet.address, token="open-wide").sync() as env:
            env.reset(seed=1)
            eventually(lambda: clients_of(http, watcher) == ["token:trainer"] * 2, "both sessions are the trainer's")
            tokens.write_text('[watcher]\ntoken = "wide-eyed"\nrole = "watch"\n')
            eventually(lambda: clients_of(http, watcher) == [], "the sessions have ended")
            assert http.post("/step", json={"action": {"amount": 1}}, headers=named).status_code == 401
            with pytest.raises(OpenEnvError, match="token"):
                env.step({"amount": 1})


def test_clients_of_the_legacy_wire_and_of_http_use_the_same_address(fleet: Fleet) -> None:
    with Wire(fleet.address.replace("http", "ws") + "/ws") as wire:
        wire.reset(seed=3)
        assert wire.step(amount=3)["data"]["reward"] == undisturbed(3, 1)[0]
    with httpx.Client(base_url=fleet.address) as http:
        http.post("/reset", json={"seed": 4}).raise_for_status()
        rewards = [http.post("/step", json={"action": {"amount": 4 + step}}).json()["reward"] for step in range(3)]
        assert rewards == undisturbed(4, 3)
        assert http.delete("/session").is_success
        assert http.get("/schema").json().keys() >= {"action", "observation", "state"}
        assert http.post("/step", json={"action": {"amount": "much"}}).status_code == 422


def test_a_page_may_send_as_long_a_message_as_the_settings_allow(fleet: Fleet) -> None:
    with V1Wire(fleet.address.replace("http", "ws") + "/ws", {"Origin": fleet.address}) as wire:
        session = wire.open()
        assert wire.ask(wire.message("step", session, amount="9" * (50 * 1024 * 1024)))["type"] == "error"


def test_what_goes_on_is_told_for_all_servers(fleet: Fleet) -> None:
    with GenericEnvClient(base_url=fleet.address).sync() as env:
        eventually(lambda: are_on_every_server(env, fleet), "every server has said which sessions it has", 300)
        eventually(lambda: figure(fleet, "openenv_sessions_capacity") == REPLICAS * PLACES, "the capacity of all")
        text = httpx.get(f"{fleet.address}/metrics", timeout=60).text
        assert f'openenv_fleet_replicas{{phase="serving"}} {REPLICAS}.0' in text
        described = httpx.get(f"{fleet.address}/fleet", timeout=60).json()
        assert described["address"] == fleet.address
        assert [replica["capacity"] for replica in described["replicas"]] == [PLACES] * REPLICAS
    assert httpx.get(f"{fleet.address}/ready").json() == {"status": "ready"}


def test_pages_of_other_sites_are_kept_out(fleet: Fleet) -> None:
    refused = httpx.get(f"{fleet.address}/fleet", headers={"Origin": "https://evil.example"})
    assert refused.status_code == 403
    assert httpx.get(f"{fleet.address}/schema", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize("target", ["@evil.example/schema", "http://evil.example/schema", "%2F@evil.example/", "*"])
def test_a_target_that_is_no_path_leads_nowhere(fleet: Fleet, target: str) -> None:
    host, port = fleet.bound
    with socket.create_connection((host, port), timeout=60) as client_s, client_s.makefile("rb") as answer:
        client_s.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert answer.readline().startswith(b"HTTP/1.1 400 ")


async def test_a_full_fleet_says_so_and_a_place_that_comes_free_anywhere_is_given_away(fleet: Fleet) -> None:
    patient = GenericEnvClient(base_url=fleet.address, capacity_wait_s=60.0)
    async with client(fleet, capacity_wait_s=60.0) as env:  # a session of before may be about to end
        games = await env.vector(REPLICAS * PLACES)
        await games.reset()
        with pytest.raises(ServerCapacityError):
            await GenericEnvClient(base_url=fleet.address).reset()
        waiting = asyncio.create_task(patient.reset(seed=1))
        await asyncio.to_thread(eventually, lambda: figure(fleet, "openenv_clients_waiting") == 1, "it is in line")
        await games.close()
        assert (await waiting).observation["steps"] == 0
    await patient.close()


def test_an_update_that_can_not_start_changes_nothing(fleet: Fleet) -> None:
    before = pids(fleet)
    with pytest.raises(ProviderError, match=r"0 replicas were updated, the others serve on.*no_such_environment"):
        fleet.update("no_such_environment")
    assert pids(fleet) == before
    fleet.scale(REPLICAS)  # with what was served before
    assert fleet.name == "ChainEnvironment"


def test_patience_that_makes_no_sense() -> None:
    with pytest.raises(ConfigurationError, match="Expected hang_s to be above 0, got 0"):
        Fleet(ChainEnvironment, hang_s=0)


def test_no_fewer_than_one(fleet: Fleet) -> None:
    with pytest.raises(ConfigurationError, match="Expected at least 1 replicas, got 0"):
        fleet.scale(0)


async def test_a_fleet_grows_and_shrinks_with_its_sessions_on_a_ray_that_is_there_already(fleet: Fleet) -> None:
    scaling = Autoscaling(1, 3, free_share=0.2, calm_s=0.5)
    growing = await asyncio.to_thread(Fleet(ChainEnvironment, autoscaling=scaling, max_sessions=10, **SMALL).start)
    try:
        assert growing.token is not None  # of a Ray that others use, too
        async with client(growing, capacity_wait_s=90.0) as env:
            games = await env.vector(25)
            results = await games.reset(seeds=range(25))
            assert not [result for result in results if isinstance(result, Exception)]
            assert growing.status().target == 3
        await asyncio.to_thread(eventually, lambda: len(growing.status().replicas) == 1, "one replica is left")
        with pytest.raises(ConfigurationError, match="Expected 1 to 3 replicas, got 4"):
            growing.scale(4)
    finally:
        await asyncio.to_thread(growing.close)
    assert len(serving(fleet)) == REPLICAS


async def test_what_ray_has_no_room_for_is_told(fleet: Fleet) -> None:
    greedy = Fleet(ChainEnvironment, resources=Resources(cpus=1000), start_timeout_s=2)
    refused = r"not ready within 2 s\. Ray may not have its resources: of \d+ processors"
    with pytest.raises(ProviderError, match=refused):
        await asyncio.to_thread(greedy.start)
    with pytest.raises(ConfigurationError, match="not running"):
        greedy.status()
