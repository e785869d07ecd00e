"""The table of sessions: its pages, orders, filters and figures, of one process and of several."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.conftest import Serve
from tests.support.servers import RunningServer, ServerProcess, V1Wire, Wire, eventually

MANY = 1200


def page(http: httpx.Client, **query: Any) -> dict[str, Any]:
    answer = http.get("/web/live/sessions", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(http: httpx.Client, **query: Any) -> list[str]:
    return [row["session"] for row in page(http, **query)["sessions"]]


def test_rows_and_figures(counter_server: RunningServer) -> None:
    with counter_server.http() as http, counter_server.v1() as wire:
        before = page(http)
        first, second = wire.open_many(2)
        wire.do("reset", first, seed=4)
        wire.do("step", first, amount=3)
        wire.do("step", first, amount=-1)
        found = page(http, text=first[:13])
        (row,) = found["sessions"]
        assert (row["session"], row["task"], row["client"], row["reward"]) == (first[:13], "seed 4", "loopback", 3)
        assert (found["total"], found["matching"], found["capacity"]) == (2, 1, 64)
        assert found["steps"] == before["steps"] + 1
        assert sum(found["errors"].values()) == sum(before["errors"].values()) + 1
        assert (found["workers"], found["answered"], found["silent"], found["waiting"]) == (1, ["0"], [], 0)
        assert names(http, shown="new") == [second[:13]]
        assert names(http, shown="playing") == [first[:13]]
        assert names(http, shown="done") == names(http, shown="busy") == names(http, shown="away") == []
        for text in ("SEED 4", "v1 loop"):
            assert first[:13] in names(http, text=text)
        assert names(http, text="nothing like it") == []


def test_orders(counter_server: RunningServer) -> None:
    with counter_server.http() as http, counter_server.v1() as wire:
        opened = [wire.open() for _ in range(3)]
        for session, amounts in zip(opened, ([5], [1, 1, 1], [4, 4]), strict=True):
            wire.do("reset", session)
            for amount in amounts:
                wire.do("step", session, amount=amount)
        wire.do("state", opened[1])
        short = [session[:13] for session in opened]
        assert names(http, order="newest") == short[::-1]
        assert names(http, order="active") == [short[1], short[2], short[0]]
        assert names(http, order="idle") == [short[0], short[2], short[1]]
        assert names(http, order="steps") == [short[1], short[2], short[0]]
        assert names(http, order="reward") == [short[2], short[0], short[1]]


def test_thousands_of_sessions_come_by_pages(serve: Serve) -> None:
    server = serve(max_concurrent_envs=MANY)
    with server.http() as http, server.v1() as wire:
        opened = {session[:13] for session in wire.open_many(MANY)}
        seen: list[str] = []
        while len(seen) < MANY:
            found = page(http, offset=len(seen), limit=200)
            assert (found["total"], found["matching"], found["offset"]) == (MANY, MANY, len(seen))
            seen += [row["session"] for row in found["sessions"]]
        assert len(seen) == MANY
        assert set(seen) == opened
        assert page(http, offset=MANY)["sessions"] == []


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "offset=-1", "order=best", "shown=few", "colour=red"])
def test_queries_that_are_none(counter_server: RunningServer, query: str) -> None:
    with counter_server.http() as http:
        assert http.get(f"/web/live/sessions?{query}").status_code == 422


@pytest.fixture(scope="module")
def workers() -> Iterator[ServerProcess]:
    with ServerProcess("worker_server.py", "3", "64", "5") as server:
        yield server


class TestWorkers:
    def test_any_worker_lists_follows_and_forks_the_sessions_of_all(self, workers: ServerProcess) -> None:
        address = workers.url.replace("http", "ws")
        wires = [V1Wire(f"{address}/ws") for _ in range(3)]
        sessions = [wire.open() for wire in wires]
        for wire, session in zip(wires, sessions, strict=True):
            wire.do("reset", session)
            wire.do("step", session, amount=2)
        assert {session.partition(".")[0] for session in sessions} == set("012")
        short = {session[:15] for session in sessions}
        for wire, session in zip(wires, sessions, strict=True):
            with httpx.Client(base_url=workers.url, trust_env=False, timeout=60) as http:
                found = page(http)
                assert (found["total"], found["capacity"], found["workers"], found["steps"] >= 3) == (3, 64, 3, True)
                assert {row["session"] for row in found["sessions"]} == short
                assert [len(names(http, offset=offset, limit=2)) for offset in (0, 2)] == [2, 1]
                with Wire(f"{address}/web/live/feed?session_id={session[:15]}") as follower:
                    assert follower.receive()["session"]["session"] == session[:15]
                    assert len(follower.receive()["entries"]) == 2
                    wire.do("step", session, amount=5)
                    (entry,) = follower.receive()["entries"]
                    assert entry["line"][5]["observation"]["total"] == 7
                fork = http.post("/web/live/fork", headers={"X-OpenEnv-Session": session[:15]}).json()
            with V1Wire(f"{address}/ws?session={fork['session'][:15]}") as own:
                own.attach(fork["session"], fork["terms"]["token"])
                assert own.do("step", fork["session"], amount=1)["data"]["observation"]["total"] == 8
                own.do("close", fork["session"])
        for wire in wires:
            wire.close()

    def test_a_worker_that_does_not_answer_is_named(self, workers: ServerProcess) -> None:
        with httpx.Client(base_url=workers.url, trust_env=False, timeout=60) as http:
            own = http.post("/reset").json()["observation"]["process"]
            other = own
            while other == own:
                with Wire(workers.url.replace("http", "ws") + "/ws") as wire:
                    other = wire.reset()["data"]["observation"]["process"]
            os.kill(other, signal.SIGSTOP)
            try:
                found = page(http)
                assert len(found["silent"]) == 1
                assert sorted(found["answered"] + found["silent"]) == ["0", "1", "2"]
            finally:
                os.kill(other, signal.SIGCONT)
            eventually(lambda: page(http)["silent"] == [], "it answers again")
