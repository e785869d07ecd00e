"""The HTTP transport: what a server is, and episodes over plain requests."""

import gc
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
from pydantic import computed_field
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    CounterEnvironment,
    Do,
    Gate,
    GatedEnvironment,
    MischievousEnvironment,
    Shown,
    ThreadedCounterEnvironment,
    Total,
)
from tests.support.servers import RunningServer, eventually, ticks

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig, Observation, State
from openenv.core.wire.names import SESSION_COOKIE, SESSION_HEADER


@pytest.fixture
def http(counter_server: RunningServer) -> Iterator[httpx.Client]:
    """A client that keeps its cookies, at a server of counters."""
    with counter_server.http() as client:
        yield client


def bare(server: RunningServer, method: str, path: str, **settings: Any) -> httpx.Response:
    """One request of a client that keeps nothing."""
    with server.http() as client:
        return client.request(method, path, **settings)


def body(amount: int) -> dict[str, Any]:
    return {"action": {"amount": amount}}


def step(client: httpx.Client, amount: int, **settings: Any) -> httpx.Response:
    return client.post("/step", json=body(amount), **settings)


def total(response: httpx.Response) -> int:
    assert response.status_code == 200, response.text
    shown: int = response.json()["observation"]["total"]
    return shown


class Threaded(Observation):
    """Holds the thread that it was written in."""

    text: str = ""

    @computed_field
    def written_in(self) -> int:
        return threading.get_ident()


class ThreadedEnvironment(CounterEnvironment):
    def step(self, action: Add) -> Any:
        return Threaded(text="x" * action.amount)


def test_a_long_answer_is_written_in_a_thread(serve: Serve) -> None:
    with serve(ThreadedEnvironment).http() as http:
        http.post("/reset")
        loop, aside, again = (step(http, amount).json()["observation"]["written_in"] for amount in (1, 2_000_000, 2))
    assert loop == again != aside


def test_a_long_body_is_read_without_garbage_collection(serve: Serve) -> None:
    collections: list[str] = []

    def note(phase: str, _about: dict[str, int]) -> None:
        collections.append(phase)

    noted = {"many": [{"a": [number]} for number in range(200_000)]}
    action = json.dumps({"action": {"amount": 1, "metadata": noted}})
    with serve(CounterEnvironment).http() as http:
        http.post("/reset")
        gc.callbacks.append(note)
        try:
            assert http.post("/step", content=action, headers={"Content-Type": "application/json"}).status_code == 200
        finally:
            gc.callbacks.remove(note)
    # With it, each 700 values are followed by one.
    assert collections.count("start") < 200_000 / 700 / 4


class TestDescription:
    def test_health_touches_no_environment(self, serve: Serve) -> None:
        class BadEnvironment(CounterEnvironment):
            def __init__(self) -> None:
                raise RuntimeError("never made")

        response = bare(serve(BadEnvironment), "GET", "/health")
        assert (response.status_code, response.json()) == (200, {"status": "healthy"})

    def test_metadata_has_all_six_keys(self, http: httpx.Client) -> None:
        assert http.get("/metadata").json() == {
            "name": "CounterEnvironment",
            "description": CounterEnvironment.__doc__,
            "readme_content": None,
            "version": "1.0.0",
            "author": None,
            "documentation_url": None,
        }

    def test_metadata_of_a_factory_that_fails_is_a_500(self, serve: Serve) -> None:
        class BadEnvironment(CounterEnvironment):
            def __init__(self) -> None:
                raise RuntimeError("/secret/path")

        response = bare(serve(BadEnvironment), "GET", "/metadata")
        assert response.status_code == 500
        assert "secret" not in response.text

    def test_schema(self, http: httpx.Client) -> None:
        schemas = http.get("/schema").json()
        assert set(schemas) == {"action", "observation", "state", "reset", "reset_observation"}
        assert schemas["reset_observation"] == schemas["observation"]
        assert schemas["action"]["required"] == ["amount"]
        assert schemas["observation"]["properties"]["total"] == {"title": "Total", "type": "integer"}
        assert "step_count" in schemas["state"]["properties"]

    def test_schema_of_a_reset_observation(self, serve: Serve) -> None:
        class First(Observation):
            greeting: str

        schemas = bare(serve(reset_observation_cls=First), "GET", "/schema").json()
        assert "greeting" in schemas["reset_observation"]["properties"]

    def test_the_api_is_documented(self, http: httpx.Client) -> None:
        assert http.get("/docs").status_code == 200
        assert http.get("/redoc").status_code == 200
        document = http.get("/openapi.json").json()
        assert document["info"] == {
            "title": "CounterEnvironment",
            "description": CounterEnvironment.__doc__,
            "version": "1.0.0",
        }
        step = document["paths"]["/step"]["post"]["requestBody"]["content"]["application/json"]
        assert step["example"] == {"action": {"amount": 0}}
        assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        assert {"/health", "/metadata", "/schema", "/reset", "/step", "/state"} <= set(document["paths"])
        assert set(document["paths"]["/mcp"]) == {"post", "delete"}

    @pytest.mark.parametrize("path", ["/", "/nothing", "/reset/x"])
    def test_anything_else_is_a_404(self, http: httpx.Client, path: str) -> None:
        response = http.get(path)
        assert (response.status_code, response.json()) == (404, {"detail": "Not Found"})

    def test_a_plain_request_to_the_socket_s_path_is_a_404(self, http: httpx.Client) -> None:
        assert http.get("/ws").status_code == 404

    def test_production_serves_no_episodes(self, serve: Serve) -> None:
        server = serve(mode="production")
        with server.http() as http:
            for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state"), ("DELETE", "/session")):
                response = http.request(method, path)
                assert (response.status_code, response.json()) == (404, {"detail": "Not Found"}), path
            for path in ("/health", "/metadata", "/schema", "/docs"):
                assert http.get(path).status_code == 200, path
            paths = http.get("/openapi.json").json()["paths"]
            assert not {"/reset", "/step", "/state"} & set(paths)
        with server.wire() as wire:
            assert wire.reset()["data"]["mode"] == "production"


class TestBareCalls:
    """A client that sends neither header nor cookie is answered as by the public server."""

    def test_reset(self, counter_server: RunningServer) -> None:
        response = bare(counter_server, "POST", "/reset", json={"seed": 3, "episode_id": "e", "difficulty": "x"})
        assert response.json() == {
            "observation": {"metadata": {"seed": 3}, "total": 0},
            "reward": None,
            "done": False,
            "metadata": {"seed": 3},
        }

    @pytest.mark.parametrize("body", [b"", b"{}", b"null"])
    def test_reset_needs_no_body(self, counter_server: RunningServer, body: bytes) -> None:
        response = bare(counter_server, "POST", "/reset", content=body, headers={"content-type": "application/json"})
        assert response.json()["metadata"] is None

    def test_step_is_played_in_a_fresh_environment(self, counter_server: RunningServer) -> None:
        for _ in range(2):
            response = bare(counter_server, "POST", "/step", json={"action": {"amount": 2}})
            assert response.text == (
                '{"observation":{"metadata":{},"total":2},"reward":2.0,"done":false,"metadata":null}'
            )

    def test_state_is_that_of_a_fresh_environment(self, counter_server: RunningServer) -> None:
        assert bare(counter_server, "GET", "/state").json() == {"episode_id": None, "step_count": 0}

    def test_they_work_at_capacity_and_count_for_nothing(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.wire() as wire:
            wire.reset()
            wire.step(amount=1)
            response = bare(server, "POST", "/reset")
            assert total(response) == 0
            assert SESSION_HEADER not in response.headers
            assert total(bare(server, "POST", "/step", json={"action": {"amount": 2}})) == 2
            assert bare(server, "GET", "/state").status_code == 200
            assert bare(server, "GET", "/metadata").status_code == 200
            assert wire.step(amount=1)["data"]["observation"]["total"] == 2
            assert server.sessions.active_sessions == 1

    def test_every_fresh_environment_is_closed(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=1)
        gate.calls.clear()
        bare(server, "POST", "/step", json={"action": {"amount": 1}})
        bare(server, "POST", "/step", json={"action": {"amount": 0}})
        bare(server, "GET", "/state")
        bare(server, "GET", "/metadata")
        assert gate.calls == [
            "make", "step", "close",
            "make", "step", "close",
            "make", "state", "close",
            "make", "close",
        ]  # fmt: skip

    def test_extras_reach_a_step_that_takes_them(self, serve: Serve) -> None:
        class Curious(CounterEnvironment):
            def step(self, action: Any, timeout_s: float | None = None, request_id: str = "", hint: str = "") -> Any:
                return Shown(value=[timeout_s, request_id, hint])

        body = {"action": {"amount": 1}, "timeout_s": 5, "request_id": "r", "hint": "h", "unknown": 1}
        response = bare(serve(Curious), "POST", "/step", json=body)
        assert response.json()["observation"]["value"] == [5.0, "r", "h"]

    def test_extras_may_have_any_name(self, serve: Serve) -> None:
        class Curious(ThreadedCounterEnvironment):
            def step(self, action: Any, **options: Any) -> Any:
                return Shown(value=options)

            def reset(self, seed: int | None = None, **task: Any) -> Any:  # type: ignore[override]
                return Shown(value=task)

        names = {"function": 1, "args": 2, "kwargs": 3, "fields": 4, "options": 5}
        server = serve(Curious)
        response = bare(server, "POST", "/step", json={"action": {"amount": 1}, **names})
        assert response.status_code == 200, response.text
        assert response.json()["observation"]["value"] == names
        response = bare(server, "POST", "/reset", json=names)
        assert response.json()["observation"]["value"] == names


class TestSession:
    """A client that keeps the header or the cookie keeps its episode."""

    def test_the_cookie_alone_keeps_the_episode(self, http: httpx.Client) -> None:
        http.post("/reset", json={"episode_id": "e"})
        assert [total(step(http, 2)) for _ in range(3)] == [2, 4, 6]
        assert http.get("/state").json() == {"episode_id": "e", "step_count": 3}
        assert total(http.post("/reset")) == 0
        assert total(step(http, 1)) == 1

    def test_the_header_alone_keeps_the_episode(self, counter_server: RunningServer) -> None:
        session = bare(counter_server, "POST", "/reset").headers[SESSION_HEADER]
        for expected in (3, 6):
            response = bare(
                counter_server,
                "POST",
                "/step",
                json={"action": {"amount": 3}},
                headers={SESSION_HEADER: session},
            )
            assert total(response) == expected
        assert bare(counter_server, "GET", "/state", headers={SESSION_HEADER: session}).json()["step_count"] == 2

    def test_the_header_wins_over_the_cookie(self, counter_server: RunningServer, http: httpx.Client) -> None:
        http.post("/reset")
        step(http, 5)
        other = bare(counter_server, "POST", "/reset").headers[SESSION_HEADER]
        assert total(step(http, 1, headers={SESSION_HEADER: other})) == 1
        assert total(step(http, 1)) == 6

    def test_reset_stays_in_the_session(self, http: httpx.Client) -> None:
        first = http.post("/reset").headers[SESSION_HEADER]
        assert http.post("/reset").headers[SESSION_HEADER] == first

    def test_two_clients_never_share(self, counter_server: RunningServer) -> None:
        with counter_server.http() as one, counter_server.http() as other:
            one.post("/reset")
            other.post("/reset")
            assert one.cookies[SESSION_COOKIE] != other.cookies[SESSION_COOKIE]
            assert [total(step(client, 1)) for client in (one, other, one, one, other)] == [1, 1, 2, 3, 2]

    def test_the_cookie_is_kept_from_scripts_and_other_sites(self, http: httpx.Client) -> None:
        cookie = http.post("/reset").headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "secure" not in cookie  # a browser would not send it back without TLS

    def test_delete_ends_it_and_gives_the_place_back(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.http() as http:
            session = http.post("/reset").headers[SESSION_HEADER]
            step(http, 1)
            assert server.sessions.active_sessions == 1
            response = http.delete("/session")
            assert (response.status_code, response.content) == (204, b"")
            assert server.sessions.active_sessions == 0
            assert SESSION_COOKIE not in http.cookies
            assert step(http, 1, headers={SESSION_HEADER: session}).status_code == 404

    def test_delete_of_nothing_is_a_204_and_of_an_unknown_one_a_404(self, counter_server: RunningServer) -> None:
        assert bare(counter_server, "DELETE", "/session").status_code == 204
        assert bare(counter_server, "DELETE", "/session", headers={SESSION_HEADER: "x"}).status_code == 404

    @pytest.mark.parametrize(("method", "path"), [("POST", "/reset"), ("POST", "/step"), ("GET", "/state")])
    def test_an_unknown_header_is_a_404(self, counter_server: RunningServer, method: str, path: str) -> None:
        body = {"json": {"action": {"amount": 1}}} if path == "/step" else {}
        response = bare(counter_server, method, path, headers={SESSION_HEADER: "zzz"}, **body)
        assert response.status_code == 404
        assert response.json() == {"detail": "Unknown session_id: zzz", "code": "SESSION_ERROR"}

    def test_a_stale_cookie_is_a_404_for_a_step_and_a_new_session_for_a_reset(self, http: httpx.Client) -> None:
        http.cookies.set(SESSION_COOKIE, "stale")
        assert step(http, 1).status_code == 404
        assert http.get("/state").status_code == 404
        assert total(http.post("/reset")) == 0
        assert total(step(http, 1)) == 1

    def test_a_step_out_of_order_is_a_409(self, http: httpx.Client) -> None:
        http.post("/reset")
        assert step(http, 10).json()["done"] is True
        response = step(http, 1)
        assert response.status_code == 409
        assert response.json()["reset_needed"] is True
        http.post("/reset")
        assert total(step(http, 1)) == 1

    def test_a_step_in_a_session_whose_first_reset_failed_is_a_409(self, serve: Serve) -> None:
        class Moody(CounterEnvironment):
            def reset(self, seed: int | None = None, episode_id: str | None = None) -> Any:
                if seed == 1:
                    raise ValueError("kaboom")
                return super().reset(seed, episode_id)

        with serve(Moody).http() as http:
            http.post("/reset")
            assert http.post("/reset", json={"seed": 1}).status_code == 500
            assert http.post("/reset").status_code == 200
            assert total(step(http, 1)) == 1

    def test_requests_at_the_same_time_wait_for_each_other(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.http() as http:
            session = http.post("/reset").headers[SESSION_HEADER]
            with ThreadPoolExecutor(1) as pool:
                first = pool.submit(bare, server, "POST", "/step", json=body(9), headers={SESSION_HEADER: session})
                gate.wait_until_entered()
                with pytest.raises(httpx.ReadTimeout):
                    step(http, 1, timeout=0.2)
                gate.opened.set()
                assert total(first.result()) == 9


class TestSlots:
    """The session that a reset opens is evicted when its slot is needed, until its client returns."""

    def test_an_unclaimed_session_makes_room_for_a_socket(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.http() as http:
            http.post("/reset")
            with server.wire() as wire:
                assert wire.reset()["type"] == "observation"
                assert step(http, 1).status_code == 404

    def test_an_unclaimed_session_makes_room_for_another_reset(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=2)
        with server.http() as first, server.http() as second, server.http() as third:
            for client in (first, second, third):
                assert SESSION_HEADER in client.post("/reset").headers
            assert total(step(third, 1)) == 1
            assert total(step(second, 1)) == 1
            assert step(first, 1).status_code == 404, "the one that waited longest had to go"
            assert server.sessions.active_sessions == 2

    def test_a_claimed_session_keeps_its_place(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with server.http() as http:
            http.post("/reset")
            step(http, 1)
            with server.wire() as wire:
                assert wire.receive()["data"]["code"] == "CAPACITY_REACHED"
            assert SESSION_HEADER not in bare(server, "POST", "/reset").headers
            assert total(step(http, 1)) == 2

    def test_a_session_closed_for_its_place_closes_its_environment(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=1)
        gate.calls.clear()
        bare(server, "POST", "/reset")
        with server.wire() as wire:
            wire.state()
            # Its thread closes it, while the session that evicted it continues.
            eventually(lambda: gate.calls.count("close") == 1, "it is closed")

    def test_a_claimed_session_ends_when_it_is_idle_for_too_long(self, serve: Serve) -> None:
        config = ConcurrencyConfig(max_concurrent_envs=1, session_timeout=2)
        server = serve(concurrency_config=config)
        with server.http() as http:
            http.post("/reset")
            assert total(step(http, 1)) == 1
            server.wait_for_sessions(0)
            assert step(http, 1).status_code == 404
            assert server.sessions.active_sessions == 0

    def test_requests_keep_a_session_alive(self, serve: Serve) -> None:
        config = ConcurrencyConfig(max_concurrent_envs=1, session_timeout=5)
        server = serve(concurrency_config=config)
        with server.http() as http:
            http.post("/reset")
            for _ in ticks(6):
                assert http.get("/state").status_code == 200


class TestRefusals:
    def test_an_action_that_does_not_fit(self, http: httpx.Client) -> None:
        response = http.post("/step", json={"action": {"nope": 1}})
        assert response.status_code == 422
        detail = [{key: entry[key] for key in entry if key != "url"} for entry in response.json()["detail"]]
        assert detail == [
            {"type": "missing", "loc": ["amount"], "msg": "Field required", "input": {"nope": 1}},
            {"type": "extra_forbidden", "loc": ["nope"], "msg": "Extra inputs are not permitted", "input": 1},
        ]

    def test_an_action_without_its_wrapper(self, http: httpx.Client) -> None:
        response = http.post("/step", json={"amount": 1})
        assert response.status_code == 422
        assert response.json() == {
            "detail": [{"type": "missing", "loc": ["body", "action"], "msg": "Field required", "input": {"amount": 1}}]
        }

    def test_a_seed_below_zero(self, http: httpx.Client) -> None:
        response = http.post("/reset", json={"seed": -1})
        assert response.status_code == 422
        assert response.json() == {
            "detail": [
                {
                    "type": "greater_than_equal",
                    "loc": ["body", "seed"],
                    "msg": "Input should be greater than or equal to 0",
                    "input": -1,
                    "ctx": {"ge": 0},
                }
            ]
        }

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/reset", b"[1, 2]"),
            ("/reset", b'"text"'),
            ("/reset", b"not json"),
            ("/reset", b'{"episode_id": "' + b"x" * 256 + b'"}'),
            ("/reset", b'{"seed": NaN}'),
            ("/reset", b'{"episode_id": "\\ud800"}'),
            ("/reset", b"[" * 100_000),
            ("/step", b""),
            ("/step", b"null"),
            ("/step", b'{"action": 3}'),
            ("/step", b'{"action": {"amount": 1}, "timeout_s": 0}'),
            ("/step", b'{"action": {"amount": 1}, "timeout_s": NaN}'),
            ("/step", b'{"action": {"amount": NaN}}'),
            ("/step", b'{"action": {"amount": Infinity}}'),
            ("/step", b'{"action": {"amount": "\\ud800"}}'),
            ("/step", b'{"action": {"\\ud800": 1}}'),
            ("/step", b'{"action": {"amount": 1}, "request_id": "' + b"x" * 256 + b'"}'),
            ("/step", b"\xff\xfe"),
        ],
        ids=lambda value: repr(value)[:44],
    )
    def test_bad_input_is_a_422_and_the_session_goes_on(self, http: httpx.Client, path: str, body: bytes) -> None:
        http.post("/reset")
        step(http, 1)
        response = http.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code in (400, 422), response.text
        assert response.json()["detail"]
        assert total(step(http, 1)) == 2

    def test_an_illegal_action_is_a_422_and_the_episode_goes_on(self, http: httpx.Client) -> None:
        http.post("/reset")
        step(http, 1)
        response = step(http, -1)
        assert response.status_code == 422
        assert response.json()["detail"][0]["msg"] == "Expected a positive amount, got -1."
        assert total(step(http, 1)) == 2

    def test_what_the_environment_raised_is_a_500_without_its_trace(self, http: httpx.Client) -> None:
        http.post("/reset")
        response = step(http, 0)
        assert response.status_code == 500
        assert response.json() == {"detail": "kaboom", "code": "EXECUTION_ERROR"}
        assert total(step(http, 1)) == 1

    def test_a_reward_beyond_any_float_is_a_typed_error(self, serve: Serve) -> None:
        server = serve(partial(MischievousEnvironment, {"it": lambda: Shown(reward=10**400)}), Do, Shown)
        response = bare(server, "POST", "/step", json={"action": {"what": "it"}})
        assert response.status_code == 500
        assert response.json()["code"] == "EXECUTION_ERROR"

    @pytest.mark.parametrize(("method", "path"), [("GET", "/reset"), ("GET", "/step"), ("POST", "/state")])
    def test_the_wrong_method_is_a_405(self, http: httpx.Client, method: str, path: str) -> None:
        assert http.request(method, path).status_code == 405


BODY_LIMIT = 4096


@pytest.fixture(scope="module")
def limited_server() -> Iterator[RunningServer]:
    """One server that accepts small bodies alone."""
    settings: dict[str, Any] = {"max_concurrent_envs": 8, "max_message_size_mb": BODY_LIMIT / 1024 / 1024}
    with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, **settings)) as server:
        yield server


class TestBodyLimit:
    def test_a_declared_length_above_it_is_a_413_before_a_byte_of_it_is_read(
        self, limited_server: RunningServer
    ) -> None:
        with socket.create_connection(("127.0.0.1", limited_server.port)) as raw:
            raw.settimeout(60)
            raw.sendall(b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
            answer = raw.recv(4096)
            assert answer.startswith(b"HTTP/1.1 413")
            assert b"TOO_LARGE" in answer or b"TOO_LARGE" in raw.recv(4096)

    def test_chunks_that_grow_above_it_are_a_413(self, limited_server: RunningServer) -> None:
        def chunks() -> Iterator[bytes]:
            yield b'{"x": "'
            for _ in range(10):
                yield b"x" * 1000
            yield b'"}'

        for path in ("/reset", "/step"):
            response = bare(
                limited_server, "POST", path, content=chunks(), headers={"content-type": "application/json"}
            )
            assert response.status_code == 413, response.text
            assert response.json()["code"] == "TOO_LARGE"
            assert response.json()["limit"] == BODY_LIMIT

    def test_a_body_of_just_the_limit_passes(self, limited_server: RunningServer) -> None:
        body = b'{"x": "%s"}' % (b"x" * (BODY_LIMIT - 9))
        assert len(body) == BODY_LIMIT
        headers = {"content-type": "application/json"}
        assert bare(limited_server, "POST", "/reset", content=body, headers=headers).status_code == 200
        assert bare(limited_server, "POST", "/reset", content=body + b" ", headers=headers).status_code == 413

    def test_a_session_survives_a_body_above_it(self, limited_server: RunningServer) -> None:
        with limited_server.http() as http:
            http.post("/reset")
            step(http, 1)
            assert http.post("/step", content=b"x" * (BODY_LIMIT + 1)).status_code == 413
            assert total(step(http, 1)) == 2


class TestTimeouts:
    def test_a_step_over_its_time_in_a_session_is_a_504(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.http() as http:
            http.post("/reset")
            response = http.post("/step", json={"action": {"amount": 9}, "timeout_s": 0.1})
            assert response.status_code == 504
            assert response.json()["code"] == "TIMEOUT"
            assert response.json()["may_have_happened"] is True

    def test_a_bare_step_over_its_time_is_answered_while_the_environment_still_hangs(
        self, serve: Serve, gate: Gate
    ) -> None:
        server = serve(partial(GatedEnvironment, gate))
        response = bare(server, "POST", "/step", json={"action": {"amount": 9}, "timeout_s": 0.1})
        assert response.status_code == 504

    def test_a_bare_reset_over_its_time_is_answered_while_the_environment_still_hangs(
        self, serve: Serve, gate: Gate
    ) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=1, reset_timeout_s=0.1)
        with server.wire() as wire:
            wire.reset()
            assert bare(server, "POST", "/reset", json={"episode_id": "held"}).status_code == 504

    def test_a_caller_cannot_grant_more_than_the_server(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), step_timeout_s=0.1)
        with server.http() as http:
            http.post("/reset")
            response = http.post("/step", json={"action": {"amount": 9}, "timeout_s": 60})
            assert response.json()["timeout_s"] == 0.1

    def test_delete_does_not_wait_for_a_step_that_hangs(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with server.http() as http:
            http.post("/reset")
            http.post("/step", json={"action": {"amount": 9}, "timeout_s": 0.1})
            assert http.delete("/session").status_code == 204


def test_a_state_of_another_class_keeps_its_fields(serve: Serve) -> None:
    class Secret(State):
        target: str = "crane"

    class Secretive(CounterEnvironment):
        @property
        def state(self) -> State:
            return Secret(episode_id="e")

    with serve(Secretive, state_cls=Secret).http() as http:
        http.post("/reset")
        assert http.get("/state").json() == {"episode_id": "e", "step_count": 0, "target": "crane"}
