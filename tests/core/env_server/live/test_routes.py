"""Forks of followed sessions, and who may list, follow and fork sessions."""

from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    SingleSessionEnvironment,
    ThreadedCounterEnvironment,
    Total,
)
from tests.support.servers import RunningServer, eventually
from tests.support.walkers import crash_image
from websockets.exceptions import InvalidStatus

from openenv.core.env_server.history import Journal
from openenv.core.exceptions import JournalError

ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}
TOKEN = "sesame-open-wide"


def fork(http: httpx.Client, session: str) -> httpx.Response:
    return http.post("/web/live/fork", headers={"X-OpenEnv-Session": session[:13]})


@pytest.mark.parametrize("environment", [CounterEnvironment, ThreadedCounterEnvironment])
def test_a_fork_goes_on_where_the_session_stands(serve: Serve, environment: Any) -> None:
    server = serve(environment)
    with server.v1() as wire, server.v1() as own, server.http() as http:
        session = wire.open()
        wire.do("reset", session, seed=5)
        wire.do("step", session, amount=4)
        answer = fork(http, session)
        assert answer.headers["cache-control"] == "no-store"
        forked = answer.json()
        assert (forked["episode"], forked["step"], forked["total"]) == (1, 1, 4)
        assert forked["outcome"]["observation"]["total"] == 4
        assert own.attach(forked["session"], forked["terms"]["token"], answered=0)["type"] == "attached"
        assert own.do("step", forked["session"], amount=1)["data"]["observation"]["total"] == 5
        assert wire.do("step", session, amount=2)["data"]["observation"]["total"] == 6
        rows = http.get("/web/live/sessions").json()["sessions"]
        assert [(row["task"], row["episode_steps"]) for row in rows] == [("seed 5", 2)] * 2


def test_a_fork_waits_for_the_request_that_is_under_way(serve: Serve, gate: Gate) -> None:
    server = serve(partial(GatedEnvironment, gate))
    with server.v1() as wire, server.http() as http, ThreadPoolExecutor() as threads:
        session = wire.open()
        wire.do("reset", session)
        wire.send(wire.message("step", session, amount=9))
        gate.wait_until_entered()
        assert http.get("/web/live/sessions", params={"shown": "busy"}).json()["matching"] == 1
        forking = threads.submit(fork, http, session)
        assert wait([forking], timeout=0.2).not_done
        gate.opened.set()
        assert forking.result(60).json()["step"] == 1
        assert wire.receive()["data"]["observation"]["total"] == 9


@pytest.mark.parametrize("queued", [0, 2])
def test_a_fork_is_rebuilt_where_it_was_made(serve: Serve, gate: Gate, tmp_path: Path, queued: int) -> None:
    journal, environment = tmp_path / "journal", partial(GatedEnvironment, gate)
    server = serve(environment, journal=journal)
    with server.v1() as wire, server.v1() as own, server.http() as http, ThreadPoolExecutor() as threads:
        session = wire.open()
        wire.do("reset", session)
        wire.send(wire.message("step", session, amount=9))
        gate.wait_until_entered()
        forking = threads.submit(fork, http, session)
        assert wait([forking], timeout=0.2).not_done
        wire.send([wire.message("step", session, amount=1) for _ in range(queued)])
        gate.opened.set()
        forked = forking.result(60).json()
        wire.receive_many(1 + queued)
        own.attach(forked["session"], forked["terms"]["token"], answered=0)
        own.do("state", forked["session"])
        copy = crash_image(journal)
    server = serve(environment, journal=copy)
    with server.v1() as wire:
        wire.attach(forked["session"], forked["terms"]["token"], answered=1)
        total = wire.do("step", forked["session"], amount=1)["data"]["observation"]["total"]
        assert total == forked["outcome"]["observation"]["total"] + 1


def test_a_fork_fails_where_the_session_ends_meanwhile(serve: Serve, gate: Gate) -> None:
    server = serve(partial(GatedEnvironment, gate), resume_window_s=0)
    with server.v1() as wire, server.http() as http, ThreadPoolExecutor() as threads:
        session = wire.open()
        wire.do("reset", session)
        wire.send(wire.message("step", session, amount=9))
        gate.wait_until_entered()
        forking = threads.submit(fork, http, session)
        assert wait([forking], timeout=0.2).not_done
        wire.cut()
        eventually(forking.done, "the session has ended")
        assert (forking.result().status_code, "has ended" in forking.result().text) == (404, True)


def test_a_fork_that_is_not_attached_to_ends(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.env_server.resumption.registry._HAND_OVER_S", 0.2)
    server = serve(resume_window_s=0)
    with server.v1() as wire, server.http() as http:
        session = wire.open()
        wire.do("reset", session)
        assert fork(http, session).status_code == 200
        server.wait_for_sessions(1)


def test_a_fork_that_can_not_be_answered_ends(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(journal: Journal) -> bool:
        raise JournalError("an error in the journal")

    server = serve(journal=str(tmp_path / "journal.db"))
    with server.v1() as wire, server.http() as http:
        session = wire.open()
        wire.do("reset", session)
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "commit", fail)
            assert fork(http, session).is_server_error
        server.wait_for_sessions(1)
        assert wire.do("step", session, amount=1)["type"] == "observation"


def test_sessions_that_can_not_be_forked(serve: Serve) -> None:
    server = serve(max_concurrent_envs=2)
    with server.v1() as wire, server.wire() as legacy, server.http() as http:
        session = wire.open()
        legacy.reset()
        name = http.get("/web/live/sessions", params={"text": "legacy"}).json()["sessions"][0]["session"]
        spoken = fork(http, name)
        assert (spoken.status_code, "its client speaks legacy" in spoken.json()["detail"]) == (409, True)
        full = fork(http, session)
        assert (full.status_code, full.json()["code"]) == (503, "CAPACITY_REACHED")
        unknown = fork(http, "00000000-0000")
        assert (unknown.status_code, "No session" in unknown.json()["detail"]) == (404, True)
        assert http.post("/web/live/fork").status_code == 422
    server = serve(SingleSessionEnvironment(), max_concurrent_envs=1)
    with server.v1() as wire, server.http() as http:
        shared = fork(http, wire.open())
        assert (shared.status_code, "share one environment" in shared.json()["detail"]) == (409, True)


def test_the_token_is_needed_from_elsewhere(serve: Serve) -> None:
    server = serve(token=TOKEN)
    with server.http(headers=ELSEWHERE) as http, server.v1() as wire:
        session = wire.open()
        assert http.get("/web/live/sessions").status_code == 401
        assert fork(http, session).status_code == 401
        with pytest.raises(InvalidStatus) as refused:
            server.wire(f"/web/live/feed?session_id={session[:13]}", ELSEWHERE)
        assert refused.value.response.status_code == 401
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        assert http.get("/web/live/sessions").json()["total"] == 1
        assert session not in http.get("/web/live/sessions").text  # its id would open it
        assert fork(http, session).status_code == 200


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_pages_of_other_sites_are_kept_out(counter_server: RunningServer, headers: dict[str, str]) -> None:
    with counter_server.http(headers=headers) as http:
        assert http.get("/web/live/sessions").status_code == 403
        assert fork(http, "00000000-0000").status_code == 403
    if "Origin" in headers:
        with pytest.raises(InvalidStatus) as refused:
            counter_server.wire("/web/live/feed?session_id=00000000-0000", headers)
        assert refused.value.response.status_code == 403


def test_production_mode_has_none_of_it(serve: Serve) -> None:
    server = serve(CounterEnvironment, Add, Total, mode="production")
    with server.http() as http:
        assert http.get("/web/config").json()["live"] is False
        assert http.get("/web/live/sessions").status_code == 404
        assert fork(http, "00000000-0000").status_code == 404
        with pytest.raises(InvalidStatus):
            server.wire("/web/live/feed?session_id=00000000-0000")
