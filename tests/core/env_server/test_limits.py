"""Limits: each with its own error, after which all goes on, on both wires and over HTTP."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from tests.conftest import Serve
from tests.support.environments.common import Add, HangingAsyncEnvironment, Total
from tests.support.servers import RunningServer, V1Wire, eventually

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.types import ConcurrencyConfig
from openenv.core.exceptions import ConfigurationError

ELSEWHERE = {"X-Forwarded-For": "192.0.2.7"}
"""What a proxy on this machine says of a client on another one."""
OPEN = {"type": "open", "id": 1}


def data_of(answer: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = answer["data"]
    return data


def code(answer: dict[str, Any]) -> str:
    assert answer["type"] == "error", answer
    text: str = answer["data"]["code"]
    return text


def asks(wire: V1Wire, **data: Any) -> dict[str, Any]:
    """Ask for a session."""
    return wire.ask({**OPEN, "data": data})


class TestSettings:
    @pytest.mark.parametrize("name", ["idle_timeout_s", "reset_timeout_s", "step_timeout_s", "max_messages_per_s"])
    @pytest.mark.parametrize("value", [0, -1, float("nan")])
    def test_what_is_to_be_above_0(self, name: str, value: float) -> None:
        with pytest.raises(ConfigurationError, match=f"Expected {name} to be above 0"):
            ServerConfig(**{name: value})  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["journal_max_age_s", "journal_max_size_mb"])
    @pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
    def test_what_has_to_be_above_0_and_has_an_end(self, name: str, value: float) -> None:
        with pytest.raises(ConfigurationError, match=f"Expected {name} to be above 0, got"):
            ServerConfig(**{name: value})  # type: ignore[arg-type]

    @pytest.mark.parametrize("name", ["resume_window_s", "max_wait_s", "drain_s"])
    @pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
    def test_what_may_be_0(self, name: str, value: float) -> None:
        assert getattr(ServerConfig(**{name: 0}), name) == 0  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=f"Expected {name} to be 0 or above"):
            ServerConfig(**{name: value})  # type: ignore[arg-type]

    def test_fewer_than_one_session_for_a_client(self) -> None:
        with pytest.raises(ConfigurationError, match="max_sessions_per_client to be 1 or above"):
            ServerConfig(max_sessions_per_client=0)

    def test_the_environment_stands_in_for_keywords(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_MAX_SESSIONS_PER_CLIENT", "3")
        monkeypatch.setenv("OPENENV_DRAIN_S", "7.5")
        app = create_fastapi_app(HangingAsyncEnvironment, Add, Total, drain_s=2)
        limits = app.state.sessions.limits
        assert (limits.max_sessions_per_client, limits.drain_s, limits.max_wait_s) == (3, 2, 600)

    @pytest.mark.parametrize(
        ("variable", "text", "expected"),
        [
            ("OPENENV_MAX_SESSIONS_PER_CLIENT", "2.5", "a whole number"),
            ("OPENENV_DRAIN_S", "soon", "a number"),
            ("OPENENV_DRAIN_S", "", "a number"),
        ],
    )
    def test_what_is_no_number(self, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, expected: str) -> None:
        monkeypatch.setenv(variable, text)
        with pytest.raises(ConfigurationError, match=f"Expected {variable} to be {expected}, got '{text}'"):
            create_fastapi_app(HangingAsyncEnvironment, Add, Total)


class TestSessionsPerClient:
    def test_the_error_tells_it_from_the_server_s_own_limit(self, serve: Serve) -> None:
        server = serve(max_sessions_per_client=2, max_concurrent_envs=3, auth="none")
        with server.v1() as wire, server.v1() as same_address, server.v1(ELSEWHERE) as other:
            wire.open_many(2)
            refused = asks(same_address)
            assert code(refused) == "CAPACITY_REACHED"
            assert "You have 2 of the 2 sessions" in data_of(refused)["message"]
            counts = {name: data_of(refused)[name] for name in ("active_sessions", "max_sessions", "scope")}
            assert counts == {"active_sessions": 2, "max_sessions": 2, "scope": "client"}
            other.open()
            full = asks(other)
            assert (data_of(full)["active_sessions"], data_of(full)["max_sessions"]) == (3, 3)
            assert "scope" not in data_of(full)

    def test_a_closed_session_does_not_count(self, serve: Serve) -> None:
        with serve(max_sessions_per_client=1).v1() as wire:
            for _ in range(3):
                wire.do("close", wire.open())

    def test_every_way_in_counts(self, serve: Serve) -> None:
        server = serve(max_sessions_per_client=3, auth="none")
        with server.v1() as v1, server.wire() as legacy, server.http() as http, server.http() as another:
            v1.open()
            assert legacy.reset()["type"] == "observation"
            assert "X-OpenEnv-Session" in http.post("/reset").headers
            http.post("/step", json={"action": {"amount": 1}})
            refused = another.post("/reset")
            assert (refused.status_code, refused.json()["code"]) == (503, "CAPACITY_REACHED")
            assert refused.json()["scope"] == "client"
            with server.wire() as wire:
                assert data_of(wire.receive())["scope"] == "client"
            assert data_of(asks(v1))["scope"] == "client"
            with server.v1(ELSEWHERE) as elsewhere, server.wire(headers=ELSEWHERE) as there:
                elsewhere.open()
                assert there.reset()["type"] == "observation"
            assert http.post("/step", json={"action": {"amount": 1}}).json()["observation"]["total"] == 2

    def test_a_client_that_names_no_session_goes_on_as_ever(self, serve: Serve) -> None:
        """Its sessions give way to its own next one, though the server has room."""
        server = serve(max_sessions_per_client=1, auth="none")
        with ExitStack() as opened:
            for _ in range(3):
                assert opened.enter_context(server.http()).post("/reset").status_code == 200
                assert server.sessions.active_sessions == 1
            assert opened.enter_context(server.http(headers=ELSEWHERE)).post("/reset").status_code == 200
            assert server.sessions.active_sessions == 2

    def test_a_session_whose_client_is_away_counts(self, serve: Serve) -> None:
        server = serve(max_sessions_per_client=1, resume_window_s=0.3)
        with server.v1() as wire:
            wire.open()
            wire.cut()
        with server.v1() as wire:
            assert asks(wire, wait_s=60)["type"] == "opened", "its window is over"


class TestWaitInLine:
    def test_places_go_to_those_who_came_first(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.v1() as holder, server.v1() as first, server.v1() as second, server.v1() as newcomer:
            held = holder.open()
            for count, wire in enumerate((first, second), 1):
                wire.send({**OPEN, "data": {"wait_s": 60}})
                waits(server, count)
            assert code(asks(newcomer)) == "CAPACITY_REACHED"
            holder.send(holder.message("close", held))
            opened = first.receive()
            assert opened["type"] == "opened"
            assert code(asks(newcomer)) == "CAPACITY_REACHED"
            waits(server, 1)
            assert first.do("reset", opened["session"])["type"] == "observation"
            first.cut()  # its session keeps the place, until its client says goodbye
            newcomer.send({**OPEN, "data": {"wait_s": 60}})
            waits(server, 2)
            second.cut()
            waits(server, 1)

    def test_whoever_leaves_loses_the_turn(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.v1() as holder, server.v1() as first, server.v1() as second:
            held = holder.open()
            for count, wire in enumerate((first, second), 1):
                wire.send({**OPEN, "data": {"wait_s": 60}})
                waits(server, count)
            first.cut()
            waits(server, 1)
            holder.do("close", held)
            assert second.receive()["type"] == "opened"
            assert server.sessions.active_sessions == 1

    def test_a_wait_in_vain_ends_as_without_it(self, serve: Serve) -> None:
        with serve(max_concurrent_envs=1).v1() as wire:
            name = wire.open()
            at_once = asks(wire)
            began = time.monotonic()
            assert asks(wire, wait_s=0.3) == at_once
            assert time.monotonic() - began >= 0.3
            assert wire.do("reset", name)["type"] == "observation"

    def test_the_socket_s_other_sessions_go_on_meanwhile(self, serve: Serve) -> None:
        with serve(max_concurrent_envs=1).v1() as wire:
            name = wire.open()
            wire.send({**OPEN, "id": 2, "data": {"wait_s": 60}})
            assert wire.do("reset", name)["type"] == "observation"
            wire.send(wire.message("close", name))
            assert {wire.receive()["type"], wire.receive()["type"]} == {"closed", "opened"}

    def test_the_server_caps_the_wait(self, serve: Serve) -> None:
        with serve(max_concurrent_envs=1, max_wait_s=0.05).v1() as wire:
            wire.open()
            assert code(asks(wire, wait_s=1e9)) == "CAPACITY_REACHED"

    @pytest.mark.parametrize("wait_s", [-1, "60", None, [], True])
    def test_what_is_no_wait(self, serve: Serve, wait_s: Any) -> None:
        with serve().v1() as wire:
            assert code(asks(wire, wait_s=wait_s)) == "VALIDATION_ERROR"

    def test_a_session_that_nobody_claimed_gives_way_to_the_line(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.http() as http, server.v1() as wire:
            http.post("/reset")
            assert asks(wire, wait_s=60)["type"] == "opened"


def waits(server: RunningServer, count: int) -> None:
    eventually(lambda: server.app.state.sessions.metrics.waiting == count, f"{count} wait in line")


class TestMessagesPerSecond:
    def test_what_is_one_too_many_does_not_happen(self, serve: Serve) -> None:
        with serve(max_messages_per_s=4).v1() as wire:
            name = wire.open()
            wire.send([wire.message("reset", name), *(wire.message("step", name, amount=1) for _ in range(200))])
            answers = wire.receive_many(201)
            assert [answer["id"] for answer in answers] == list(range(1, 202)), "each is answered, in turn"
            refused = [answer for answer in answers if answer["type"] == "error"]
            assert {code(answer) for answer in refused} == {"RATE_LIMITED"}
            assert len(refused) > 100
            last = data_of(refused[-1])
            assert last["max_messages_per_s"] == 4
            time.sleep(last["retry_after_s"])
            state = wire.do("state", name)
            assert state["id"] == 202, "the refused numbers are used up"
            assert data_of(state)["step_count"] == 200 - len(refused)

    def test_to_open_counts_too(self, serve: Serve) -> None:
        with serve(max_messages_per_s=0.01).v1() as wire:
            wire.open()
            assert code(asks(wire)) == "RATE_LIMITED"
            refused = wire.attach("nobody", "token")
            assert (code(refused), refused["id"], "session" in refused) == ("RATE_LIMITED", 2, False)

    @pytest.mark.parametrize(
        "frame", ["{", '{"type": "open"}', '{"type": "step", "id": 3, "session": "x", "data": {}}']
    )
    def test_what_makes_no_request_counts_too(self, serve: Serve, frame: str) -> None:
        with serve(max_messages_per_s=0.01).v1() as wire:
            assert code(wire.ask(frame)) != "RATE_LIMITED"
            assert code(wire.ask(frame)) == "RATE_LIMITED"

    def test_to_close_and_to_ask_again_is_always_allowed(self, serve: Serve) -> None:
        server = serve(max_messages_per_s=0.01)
        with server.v1() as wire:
            name = wire.open()
            reset = wire.message("reset", name)
            refused = wire.ask(reset)
            assert code(refused) == "RATE_LIMITED"
            assert wire.ask(reset) == refused, "as any answer that is asked for again"
            assert wire.do("close", name)["type"] == "closed"
            assert server.sessions.active_sessions == 0

    def test_to_close_again_and_again_counts(self, serve: Serve) -> None:
        with serve(max_messages_per_s=0.01).v1() as wire:
            close = {"type": "close", "id": 999, "session": wire.open()}
            assert code(wire.ask(close)) == "VALIDATION_ERROR", "the id is not the next one, so the session stays"
            wire.send([close] * 50)
            assert {code(answer) for answer in wire.receive_many(50)} == {"RATE_LIMITED"}

    def test_to_ask_again_and_again_counts(self, serve: Serve) -> None:
        server = serve(max_messages_per_s=3)
        with server.v1() as wire:
            name, token = wire.open_with_token()
            reset = wire.message("reset", name)
            wire.send([reset] * 200)
            answers = wire.receive_many(200)
            given = [answer for answer in answers if answer["type"] == "observation"]
            assert {code(answer) for answer in answers if answer not in given} == {"RATE_LIMITED"}
            assert len(given) < 50
            wire.cut()
        with server.v1() as wire:
            assert wire.attach(name, token)["type"] == "attached"
            wire.send([{**reset, "id": 9}] * 5)  # as many as may come
            assert {code(answer) for answer in wire.receive_many(5)} >= {"RATE_LIMITED"}
            assert wire.ask(reset) == given[0], "once on each socket it is free"

    def test_sockets_do_not_count_for_each_other(self, serve: Serve) -> None:
        server = serve(max_messages_per_s=0.01)
        for _ in range(3):
            with server.v1() as wire:
                wire.open()

    def test_on_the_legacy_wire(self, serve: Serve) -> None:
        with serve(max_messages_per_s=1).wire() as wire:
            wire.reset()
            for _ in range(20):
                wire.send({"type": "step", "data": {"amount": 1}})
            answers = [wire.receive() for _ in range(20)]
            refused = [answer for answer in answers if answer["type"] == "error"]
            assert {code(answer) for answer in refused} == {"RATE_LIMITED"}
            time.sleep(data_of(refused[-1])["retry_after_s"])
            assert data_of(wire.state())["step_count"] == 20 - len(refused)

    def test_over_http(self, serve: Serve) -> None:
        server = serve(max_messages_per_s=0.01, auth="none")
        with server.http() as http, server.http(headers=ELSEWHERE) as elsewhere:
            assert http.post("/reset").status_code == 200
            refused = http.post("/step", json={"action": {"amount": 1}})
            assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
            assert 1 <= int(refused.headers["Retry-After"]) <= 100
            assert refused.json()["retry_after_s"] <= int(refused.headers["Retry-After"])
            for route in ("/state", "/metadata", "/schema"):
                assert http.get(route).status_code == 429
            assert elsewhere.post("/reset").status_code == 200
            for _ in range(3):
                assert http.get("/health").status_code == http.get("/ready").status_code == 200


@pytest.fixture(scope="module", params=["none", "process"])
def strict(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """A server that gives a call 0.3 s and a message 400 bytes, and closes what is idle."""
    app = create_fastapi_app(
        HangingAsyncEnvironment,
        Add,
        Total,
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=8, session_timeout=1),
        reset_timeout_s=0.3,
        step_timeout_s=0.3,
        max_message_size_mb=400 / 2**20,
        isolation=request.param,
    )
    with RunningServer(app) as server:
        yield server


class TestEveryWay:
    """Timeouts and sizes have the same errors on each wire, wherever the environment runs."""

    def test_v1(self, strict: RunningServer) -> None:
        with strict.v1() as wire:
            name = wire.open()
            slow = wire.do("reset", name, episode_id="held")
            assert (code(slow), data_of(slow)["operation"]) == ("TIMEOUT", "reset")
            wire.do("reset", name)
            slow = wire.do("step", name, amount=9)
            assert (code(slow), data_of(slow)["operation"]) == ("TIMEOUT", "step")
            large = wire.do("reset", name, padding="x" * 500)
            assert (code(large), data_of(large)["limit"]) == ("TOO_LARGE", 400)
            assert wire.do("reset", name)["type"] == "observation"
            strict.wait_for_sessions(0)
            assert code(wire.do("step", name, amount=1)) == "SESSION_ERROR"

    def test_legacy(self, strict: RunningServer) -> None:
        with strict.wire() as wire:
            slow = wire.reset(episode_id="held")
            assert (code(slow), data_of(slow)["operation"]) == ("TIMEOUT", "reset")
            wire.reset()
            slow = wire.step(amount=9)
            assert (code(slow), data_of(slow)["operation"]) == ("TIMEOUT", "step")
            large = wire.reset(padding="x" * 500)
            assert (code(large), data_of(large)["limit"]) == ("TOO_LARGE", 400)
            assert wire.reset()["type"] == "observation"
            strict.wait_for_sessions(0)
            assert code(wire.step(amount=1)) == "SESSION_ERROR"

    def test_http(self, strict: RunningServer) -> None:
        with strict.http() as http:
            assert http.post("/reset").status_code == 200
            assert error_of(http.post("/reset", json={"episode_id": "held"})) == (504, "TIMEOUT")
            http.post("/reset")
            assert error_of(http.post("/step", json={"action": {"amount": 9}})) == (504, "TIMEOUT")
            assert error_of(http.post("/reset", json={"padding": "x" * 500})) == (413, "TOO_LARGE")
            assert http.post("/reset").status_code == 200
            strict.wait_for_sessions(0)
            assert error_of(http.post("/step", json={"action": {"amount": 1}})) == (404, "SESSION_ERROR")


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]
