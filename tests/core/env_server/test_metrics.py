"""What a server counts: by each way to open, to fail and to end."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Serve
from tests.support.environments.common import (
    AsyncCounterEnvironment,
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    ThreadedCounterEnvironment,
)
from tests.support.ors_wire import OrsWire
from tests.support.servers import RunningServer, V1Wire, eventually

from openenv.core.env_server.metrics import BOUNDS_S, INLINE_STEPS_TIMED, Ending, Histogram, Metrics, Transport
from openenv.core.env_server.types import ConcurrencyConfig


def metrics_of(server: RunningServer) -> Metrics:
    metrics = server.app.state.sessions.metrics
    assert isinstance(metrics, Metrics)
    return metrics


@given(durations=st.lists(st.floats(min_value=0, max_value=1000)))
def test_each_duration_is_counted_in_the_first_bucket_that_holds_it(durations: list[float]) -> None:
    histogram = Histogram()
    for duration in durations:
        histogram.observe(duration)
    for index, bound in enumerate(BOUNDS_S):
        assert sum(histogram.counts[: index + 1]) == sum(duration <= bound for duration in durations)
    assert histogram.count == len(durations)
    assert histogram.total_s == pytest.approx(sum(durations))


def test_bounds_go_up() -> None:
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))


class TestSteps:
    @pytest.mark.parametrize("environment", [ThreadedCounterEnvironment, AsyncCounterEnvironment])
    def test_steps_and_resets_that_gave_an_observation(self, serve: Serve, environment: type) -> None:
        server = serve(environment)
        with server.v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            for amount in (1, 2, 0, -1, 3):  # 0 fails, -1 is refused
                wire.do("step", name, amount=amount)
        metrics = metrics_of(server)
        assert (metrics.steps, metrics.step_times.count, metrics.reset_times.count) == (3, 3, 1)
        assert metrics.errors == {"EXECUTION_ERROR": 1, "VALIDATION_ERROR": 1}
        assert 0 < metrics.step_times.total_s < 60

    def test_of_inline_steps_one_in_some_is_timed(self, serve: Serve) -> None:
        server = serve(CounterEnvironment)
        with server.v1() as wire:
            name = wire.open()
            for _ in range(3):
                wire.do("reset", name)
                for _ in range(9):
                    wire.do("step", name, amount=1)
        metrics = metrics_of(server)
        assert (metrics.steps, metrics.step_times.count) == (27, 27 // INLINE_STEPS_TIMED)

    def test_what_runs_and_what_waits_behind_it(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.v1() as wire:
            name = wire.open()
            wire.do("reset", name)
            wire.send([wire.message("step", name, amount=amount) for amount in (9, 0, 0)])
            gate.wait_until_entered()
            eventually(lambda: metrics_of(server).queued == 2, "two steps wait behind the first")
            (session,) = server.app.state.sessions
            assert session.busy
            gate.opened.set()
            wire.receive_many(3)
            assert not session.busy
        metrics = metrics_of(server)
        assert (metrics.queued, metrics.step_times.count) == (0, 1)

    def test_every_transport(self, serve: Serve) -> None:
        server = serve(ThreadedCounterEnvironment)
        with server.v1() as v1, server.wire() as legacy, server.http() as http:
            name = v1.open()
            v1.do("reset", name)
            v1.do("step", name, amount=1)
            legacy.reset()
            legacy.step(amount=1)
            http.post("/reset")
            http.post("/step", json={"action": {"amount": 1}})
            ors = OrsWire(server)
            ors.begin()
            ors.stream("add", amount=1)
            ors.http.close()
            opened = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}).json()
            call = {"name": "add", "arguments": {"amount": 1}, "session_id": opened["result"]["session_id"]}
            http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
        metrics = metrics_of(server)
        assert metrics.opened == dict.fromkeys(Transport, 1)
        assert (metrics.steps, metrics.reset_times.count) == (5, 5)


class TestErrors:
    def test_over_v1(self, counter_server: RunningServer) -> None:
        before = metrics_of(counter_server).errors.copy()
        with counter_server.v1() as wire:
            wire.ask("{")
            wire.ask({"type": "bogus", "id": 1, "session": "x", "data": {}})
            wire.ask({"type": "step", "id": 1, "session": "x", "data": {}})
            name = wire.open()
            wire.do("step", name, amount=1)
        counted = metrics_of(counter_server).errors - before
        assert counted == {"INVALID_JSON": 1, "UNKNOWN_TYPE": 1, "SESSION_ERROR": 2}

    def test_over_the_legacy_wire(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.wire() as wire, server.wire() as refused:
            wire.ask("{")
            wire.step(amount=1)
            refused.receive()
        assert metrics_of(server).errors == {"INVALID_JSON": 1, "SESSION_ERROR": 1, "CAPACITY_REACHED": 1}

    def test_over_http(self, serve: Serve) -> None:
        server = serve(max_message_size_mb=0.001)
        with server.http() as http:
            http.post("/step", content="{")
            http.post("/step", json={"action": {}})
            http.post("/step", json={"action": {"amount": 1}})
            http.get("/state", headers={"X-OpenEnv-Session": "none"})
            http.post("/step", json={"action": {"amount": 1, "padding": "x" * 2000}})
        assert metrics_of(server).errors == {"VALIDATION_ERROR": 2, "SESSION_ERROR": 1, "TOO_LARGE": 1}


class TestEndings:
    def test_a_client_that_closes(self, serve: Serve) -> None:
        server = serve()
        with server.v1() as wire, server.wire() as legacy, server.http() as http:
            wire.do("close", wire.open())
            legacy.ask({"type": "state"})
            legacy.send({"type": "close"})
            http.post("/reset")
            http.delete("/session")
            server.wait_for_sessions(0)
        assert metrics_of(server).closed == {Ending.CLOSED: 3}

    @pytest.mark.parametrize("leave", [V1Wire.close, V1Wire.cut], ids=["close", "cut"])
    def test_a_client_that_goes(self, serve: Serve, leave: Any) -> None:
        server = serve(resume_window_s=0)
        with server.v1() as wire, server.wire() as legacy:
            wire.open_many(2)
            legacy.ask({"type": "state"})
            leave(wire)
            legacy.close()
            server.wait_for_sessions(0)
        assert metrics_of(server).closed == {Ending.DISCONNECTED: 3}

    def test_a_client_that_comes_back_and_one_that_does_not(self, serve: Serve) -> None:
        server = serve(resume_window_s=0.3)
        with server.v1() as wire:
            opened = [wire.ask({"type": "open", "id": number, "data": {}}) for number in (1, 2)]
            wire.cut()
        eventually(lambda: sum(session.away for session in server.app.state.sessions) == 2, "both are away")
        token, session = opened[0]["data"]["token"], opened[0]["session"]
        with server.v1() as wire:
            attached = wire.ask(
                {"type": "attach", "id": 1, "session": session, "data": {"token": token, "answered": 0}}
            )
            assert attached["type"] == "attached"
            assert not next(iter(server.app.state.sessions)).away
            server.wait_for_sessions(1)
        assert metrics_of(server).resumed == 1
        server.wait_for_sessions(0)
        assert metrics_of(server).closed == {Ending.AWAY: 1, Ending.DISCONNECTED: 1}

    def test_idleness_and_the_server_s_end(self, serve: Serve) -> None:
        server = serve(concurrency_config=ConcurrencyConfig(max_concurrent_envs=2, session_timeout=0.1))
        with server.v1() as wire:
            wire.open()
            server.wait_for_sessions(0)
            assert metrics_of(server).closed == {Ending.IDLE: 1}
        ending = serve()
        with ending.http() as http:
            http.post("/reset")
        ending.stop()
        assert metrics_of(ending).closed == {Ending.SHUTDOWN: 1}

    def test_a_session_that_makes_room(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.http() as http, server.v1() as wire:
            http.post("/reset")
            wire.open()
        assert metrics_of(server).closed[Ending.REPLACED] == 1

    def test_what_opens_ends_once_however_it_is_driven(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=64, resume_window_s=0)

        def visit(number: int) -> None:
            with server.v1() as wire:
                names = wire.open_many(4)
                if number % 2:
                    wire.send([wire.message("reset", name) for name in names])
                    wire.cut()
                elif number % 4:
                    wire.do("close", names[0])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(visit, range(24)))
        server.wait_for_sessions(0)
        metrics = metrics_of(server)
        assert metrics.opened.total() == metrics.closed.total() <= 96
        assert metrics.closed[Ending.DISCONNECTED] > 0


def test_forks_and_the_journal(serve: Serve, tmp_path: Path) -> None:
    server = serve(journal=tmp_path / "journal")
    with server.v1() as wire:
        name = wire.open()
        wire.do("reset", name)
        before = metrics_of(server).journal_commits
        assert len(wire.do("fork", name, count=3)["data"]["sessions"]) == 3
    metrics = metrics_of(server)
    assert (metrics.forked, metrics.opened[Transport.V1]) == (3, 4)
    assert metrics.journal_commits > before > 0
    assert 0 < metrics.journal_seconds < 60


def test_frames_and_their_characters(serve: Serve) -> None:
    server = serve()
    sent = ['{"type":"state"}', '{"type":"reset","data":{}}']
    with server.wire() as wire:
        received = []
        for frame in sent:
            wire.send(frame)
            received.append(str(wire.socket.recv(timeout=60)))
    metrics = metrics_of(server)
    assert (metrics.frames_in, metrics.frames_out) == (2, 2)
    assert metrics.characters_in == sum(map(len, sent))
    assert metrics.characters_out == sum(map(len, received))
