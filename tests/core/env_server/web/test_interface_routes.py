"""The routes of the public package's page, over the network."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from openenv.core.env_server.app import create_app, create_fastapi_app, create_web_interface_app

PATHS = (("GET", "/web/metadata"), ("POST", "/web/reset"), ("POST", "/web/step"), ("GET", "/web/state"))
NO_METADATA: dict[str, Any] = {"metadata": {}}


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(create_web_interface_app(CounterEnvironment, Add, Total, "counter_env")) as running:
        yield running


def followed(socket: Any) -> dict[str, Any]:
    message = json.loads(socket.recv(timeout=60))
    assert message["type"] == "state_update"
    episode: dict[str, Any] = message["episode_state"]
    return episode


def test_all_callers_share_one_episode(server: RunningServer) -> None:
    with server.http() as one, server.http() as other:
        assert one.get("/web/metadata").json()["name"] == "counter_env"
        assert one.get("/web/state").json() == {"episode_id": None, "step_count": 0}
        assert one.post("/web/reset").json() == {
            "observation": {"total": 0, **NO_METADATA},
            "reward": None,
            "done": False,
        }
        assert other.post("/web/step", json={"action": {"amount": 3}}).json()["observation"]["total"] == 3
        assert one.post("/web/step", json={"action": {"amount": 4}}).json()["observation"]["total"] == 7
        assert other.get("/web/state").json()["step_count"] == 2
        assert other.post("/web/reset", json={"seed": 5}).json()["metadata"] == {"seed": 5}


def test_errors(server: RunningServer) -> None:
    with server.http() as http:
        assert http.post("/web/step", json={"action": {"amount": 1}}).status_code == 409
        http.post("/web/reset")
        for body in ({"action": {"amount": "many"}}, {"action": 3}, {}, {"message": "hello"}, [1]):
            assert http.post("/web/step", json=body).status_code == 422, body
        failed = http.post("/web/step", json={"action": {"amount": 0}})
        assert (failed.status_code, failed.json()["detail"]) == (500, "kaboom")
        assert http.post("/web/step", json={"action": {"amount": 1}}).json()["observation"]["total"] == 1


def test_a_socket_follows_the_episode(server: RunningServer) -> None:
    with connect(f"ws://127.0.0.1:{server.port}/ws/ui") as socket, server.http() as http:
        assert followed(socket) == {
            "episode_id": None,
            "step_count": 0,
            "current_observation": None,
            "action_logs": [],
            "is_reset": True,
        }
        http.post("/web/reset", json={"episode_id": "e"})
        began = followed(socket)
        assert (began["episode_id"], began["current_observation"], began["is_reset"]) == (
            "e",
            {"total": 0, **NO_METADATA},
            True,
        )
        http.post("/web/step", json={"action": {"amount": 2}})
        stepped = followed(socket)
        assert (stepped["step_count"], stepped["is_reset"]) == (1, False)
        (log,) = stepped["action_logs"]
        assert log.pop("timestamp")
        total = {"total": 2, **NO_METADATA}
        expected = {"action": {"amount": 2}, "observation": total, "reward": 2.0, "done": False, "step_count": 1}
        assert log == expected
        assert stepped["current_observation"] == total
        socket.send("anything")
        with connect(f"ws://127.0.0.1:{server.port}/ws/ui") as later:
            assert followed(later)["step_count"] == 1


def test_as_many_follow_as_may(server: RunningServer) -> None:
    address = f"ws://127.0.0.1:{server.port}/ws/ui"
    with ExitStack() as opened, server.http() as http:
        sockets = [opened.enter_context(connect(address)) for _ in range(16)]
        assert [followed(socket)["is_reset"] for socket in sockets] == [True] * 16
        with connect(address) as refused:
            assert json.loads(refused.recv()) == {"ended": "As many follow this session as may; try again later."}
            with pytest.raises(ConnectionClosed):
                refused.recv()
        http.post("/web/reset", json={"episode_id": "e"})
        assert {followed(socket)["episode_id"] for socket in sockets} == {"e"}


def test_the_earliest_steps_go_where_all_are_too_much(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.core.env_server.web.interface._MOST_LOGGED", 500)
    with connect(f"ws://127.0.0.1:{server.port}/ws/ui") as socket, server.http() as http:
        followed(socket)
        http.post("/web/reset")
        followed(socket)
        for number in range(1, 6):
            http.post("/web/step", json={"action": {"amount": 1}})
            logs = followed(socket)["action_logs"]
            assert logs[-1]["step_count"] == number
        assert [log["step_count"] for log in logs] == list(range(6 - len(logs), 6))
        assert 1 <= len(logs) < 5


def test_the_session_gives_way_to_another_client_and_a_reset_opens_a_new_one(server: RunningServer) -> None:
    assert server.sessions.max_concurrent_envs == 1
    with server.http() as http:
        http.post("/web/reset")
        with server.wire() as client:
            client.reset()
            ended = http.post("/web/step", json={"action": {"amount": 1}})
            assert (ended.status_code, "Reset it" in ended.json()["detail"]) == (409, True)
            assert http.post("/web/reset").status_code == 503
        server.wait_for_sessions(0)
        assert http.post("/web/reset").status_code == 200


def test_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENABLE_WEB_INTERFACE", raising=False)
    without = create_app(CounterEnvironment, Add, Total)
    production = create_web_interface_app(CounterEnvironment, Add, Total, mode="production")
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "true")
    enabled = [create(CounterEnvironment, Add, Total) for create in (create_app, create_fastapi_app)]
    both = create_web_interface_app(CounterEnvironment, Add, Total)
    for app in (without, production):
        assert {TestClient(app).request(*route).status_code for route in PATHS} == {404}
    for app in (*enabled, both):
        assert TestClient(app).get("/web/metadata").status_code == 200


def test_they_are_guarded() -> None:
    app = create_web_interface_app(CounterEnvironment, Add, Total, token="sesame-open-wide")
    with RunningServer(app) as running, running.http() as http:
        elsewhere = {"X-Forwarded-For": "203.0.113.9"}
        assert {http.request(*route, headers=elsewhere).status_code for route in PATHS} == {401}
        evil = {"Origin": "https://evil.example"}
        assert {http.request(*route, headers=evil).status_code for route in PATHS} == {403}
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{running.port}/ws/ui", additional_headers=evil)


def test_an_instance_is_played_as_it_is() -> None:
    environment = CounterEnvironment()
    with RunningServer(create_web_interface_app(environment, Add, Total)) as running, running.http() as http:
        http.post("/web/reset")
        http.post("/web/step", json={"action": {"amount": 3}})
    assert environment._counter.total == 3
