"""``/metrics`` and ``/sessions``, of one process and of several."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.conftest import Serve
from tests.support.environments.common import Gate, GatedEnvironment
from tests.support.servers import RunningServer, ServerProcess, V1Wire, Wire, eventually


def metric(http: httpx.Client, name: str, **labels: str) -> float:
    """Add up the samples of a name that have these labels."""
    answer = http.get("/metrics")
    assert answer.status_code == 200
    return sum(
        sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def rows(http: httpx.Client, **query: int) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = http.get("/sessions", params=query).json()["sessions"]
    return listed


class TestMetrics:
    def test_a_scrape(self, serve: Serve) -> None:
        server = serve(env_name="counting")
        with server.v1() as wire, server.http() as http:
            for name in wire.open_many(3):
                wire.do("reset", name)
            wire.do("step", name, amount=4)
            assert metric(http, "openenv_sessions", phase="playing") == 3
            assert metric(http, "openenv_sessions_capacity") == 8
            assert metric(http, "openenv_steps_total", worker="0") == 1
            assert metric(http, "openenv_server_info", environment="counting") == 1
            assert metric(http, "openenv_worker_up") == 1
            assert metric(http, "process_resident_memory_bytes") > 1e6

    def test_counters_never_go_down(self, serve: Serve) -> None:
        server = serve(resume_window_s=0)
        with server.http() as http:
            seen = []
            for _ in range(3):
                with server.v1() as wire:
                    name = wire.open()
                    wire.do("reset", name)
                    wire.do("step", name, amount=1)
                    seen.append(metric(http, "openenv_steps_total"))
                server.wait_for_sessions(0)
                seen.append(metric(http, "openenv_steps_total"))
            assert seen == [1, 1, 2, 2, 3, 3]

    def test_production_mode_has_metrics_but_lists_no_sessions(self, serve: Serve) -> None:
        with serve(mode="production").http() as http:
            assert metric(http, "openenv_worker_up") == 1
            assert http.get("/sessions").status_code == 404

    def test_a_scraper_gets_openmetrics_where_it_asks_for_it(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            answer = http.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            assert answer.text.endswith("# EOF\n")


class TestSessions:
    def test_a_row(self, serve: Serve) -> None:
        server = serve()
        with server.v1() as wire, server.http() as http:
            name = wire.open()
            assert rows(http)[0]["phase"] == "new"
            for _ in range(2):
                wire.do("reset", name)
                wire.do("step", name, amount=2)
                wire.do("step", name, amount=3)
            (row,) = rows(http)
            assert 0 <= row.pop("idle_s") <= row.pop("age_s") < 60
            assert row == {
                "session": name[:13],
                "worker": "0",
                "transport": "v1",
                "client": "loopback",
                "task": "",
                "phase": "playing",
                "episodes": 2,
                "steps": 4,
                "episode_steps": 2,
                "reward": 5.0,
                "busy": False,
                "away": False,
                "recoverable": None,
            }
            wire.do("step", name, amount=5)
            assert (rows(http)[0]["phase"], rows(http)[0]["reward"]) == ("done", 10.0)

    def test_what_is_listed_opens_nothing(self, serve: Serve) -> None:
        server = serve()
        with server.http() as http, server.http() as other:
            session = http.post("/reset").headers["X-OpenEnv-Session"]
            (row,) = rows(other)
            assert row["session"] != session
            assert session not in other.get("/sessions").text + other.get("/metrics").text
            refused = other.post("/step", json={"action": {"amount": 1}}, headers={"X-OpenEnv-Session": row["session"]})
            assert refused.status_code == 404
            with server.wire(f"/ws?session_id={row['session']}") as wire:
                assert wire.receive()["type"] == "error"

    def test_one_that_works_and_one_whose_client_is_away(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.http() as http, server.v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            wire.send(wire.message("step", name, amount=9))
            gate.wait_until_entered()
            assert [(row["busy"], row["away"], row["idle_s"]) for row in rows(http)] == [(True, False, 0)]
            assert metric(http, "openenv_requests_running") == 1
            wire.cut()
            eventually(lambda: rows(http)[0]["away"], "the client is away")
            assert metric(http, "openenv_sessions_away") == 1

    def test_those_used_last_come_first_and_no_more_than_are_asked_for(self, serve: Serve) -> None:
        server = serve()
        with server.v1() as wire, server.http() as http:
            names = wire.open_many(3)
            for name in (names[0], names[2], names[1]):
                time.sleep(0.01)  # the table tells milliseconds
                wire.do("reset", name)
            assert [row["session"] for row in rows(http)] == [names[n][:13] for n in (1, 2, 0)]
            listed = http.get("/sessions", params={"limit": 2}).json()
            assert (listed["total"], len(listed["sessions"])) == (3, 2)

    @pytest.mark.parametrize("limit", [0, 1001, "many"])
    def test_a_limit_that_is_none(self, counter_server: RunningServer, limit: object) -> None:
        with counter_server.http() as http:
            assert http.get("/sessions", params={"limit": str(limit)}).status_code == 422


@pytest.fixture(scope="module")
def workers() -> Iterator[ServerProcess]:
    with ServerProcess("worker_server.py", "3", "64", "5") as server:
        yield server


class TestWorkers:
    def test_any_worker_answers_for_all(self, workers: ServerProcess) -> None:
        wires = [V1Wire(workers.url.replace("http", "ws") + "/ws") for _ in range(3)]
        for wire in wires:
            name = wire.open()
            wire.do("reset", name)
            wire.do("step", name)
        for _ in range(4):
            with httpx.Client(base_url=workers.url, trust_env=False) as http:
                assert metric(http, "openenv_steps_total") == 3
                assert [metric(http, "openenv_steps_total", worker=worker) for worker in "012"] == [1, 1, 1]
                assert metric(http, "openenv_sessions_capacity") == 64
                assert {row["worker"] for row in rows(http)} == set("012")
                assert len(rows(http, limit=2)) == 2
        for wire in wires:
            wire.close()

    def test_a_worker_that_is_held_up_is_left_out_and_told(self, workers: ServerProcess) -> None:
        with httpx.Client(base_url=workers.url, trust_env=False, timeout=60) as http, ExitStack() as wires:
            asked = http.post("/reset").json()["observation"]["process"]  # whom this connection is to, from here on
            held_up = asked
            while held_up == asked:
                wire = wires.enter_context(Wire(workers.url.replace("http", "ws") + "/ws"))
                held_up = wire.reset()["data"]["observation"]["process"]
            os.kill(held_up, signal.SIGSTOP)
            try:
                assert metric(http, "openenv_worker_up") == 2
            finally:
                os.kill(held_up, signal.SIGCONT)

    def test_a_worker_that_dies_starts_anew_at_0(self, workers: ServerProcess) -> None:
        with Wire(workers.url.replace("http", "ws") + "/ws") as wire:
            process = wire.reset()["data"]["observation"]["process"]
            os.kill(process, signal.SIGKILL)

        def all_up() -> bool:
            with httpx.Client(base_url=workers.url, trust_env=False, timeout=60) as http:
                return metric(http, "openenv_worker_up") == 3

        eventually(all_up, "it is replaced by another worker")
