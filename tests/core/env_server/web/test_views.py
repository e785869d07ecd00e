"""What an environment shows of an observation: asked for on v1, in this process and in another."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, V1Wire

from openenv.core.env_server.app import create_fastapi_app

NOTHING: dict[str, Any] = {"html": None, "actions": [], "media_type": None, "content": None}


class ShowingEnvironment(CounterEnvironment):
    """Shows the total as HTML up to 2, as a picture up to 5; then its methods fail, each in its way."""

    def render_web(self, observation: dict[str, Any]) -> Any:
        total = observation["total"]
        return 7 if total == 7 else f"<b>{total}</b>" if total <= 2 else None

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        if observation["total"] == 6:
            raise ValueError("no buttons today")
        return [("one more", {"amount": 1})] if not observation["done"] else []

    def render(self) -> str | None:
        return f"total {self._counter.total}"


@pytest.fixture(params=["none", "process"])
def wire(request: pytest.FixtureRequest) -> Iterator[V1Wire]:
    app = create_fastapi_app(ShowingEnvironment, Add, Total, isolation=request.param)
    with RunningServer(app) as server, server.v1() as wire:
        yield wire


def view(wire: V1Wire, session: str, **observation: Any) -> dict[str, Any]:
    message = {**wire.message("render", session), "data": {"observation": observation}}
    answer: dict[str, Any] = wire.ask(message)
    return answer


def test_html_and_buttons_or_a_picture(wire: V1Wire) -> None:
    session = wire.open()
    wire.do("reset", session)
    button = {"label": "one more", "action": {"amount": 1}}
    shown = view(wire, session, total=2, reward=1.0, done=False)
    assert (shown["type"], shown["data"]) == ("picture", {**NOTHING, "html": "<b>2</b>", "actions": [button]})
    drawn = view(wire, session, total=5, reward=1.0, done=True)
    assert drawn["data"] == {**NOTHING, "media_type": "text/plain", "content": "total 0"}


@pytest.mark.parametrize(("total", "said"), [(6, "no buttons today"), (7, "Expected render_web")])
def test_a_view_that_fails_costs_nothing_else(wire: V1Wire, total: int, said: str) -> None:
    session = wire.open()
    wire.do("reset", session)
    failed = view(wire, session, total=total, done=False)
    assert failed["data"]["code"] == "EXECUTION_ERROR"
    assert said in failed["data"]["message"]
    assert wire.do("step", session, amount=2)["data"]["observation"]["total"] == 2


def test_an_observation_has_to_be_an_object(wire: V1Wire) -> None:
    session = wire.open()
    message = {**wire.message("render", session), "data": {"observation": "x"}}
    assert wire.ask(message)["data"]["code"] == "VALIDATION_ERROR"


class StaticEnvironment(CounterEnvironment):
    """Shows its total without an instance; some totals fail, each in its way."""

    @staticmethod
    def render_web(observation: dict[str, Any]) -> Any:
        total = observation["total"]
        return {7: 7, 8: None}.get(total, f"<b>{total}</b>")


def post(server: RunningServer, body: Any, environment: str = "StaticEnvironment") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps({"environment": environment, "observation": body})
    return httpx.post(f"{server.url}/web/view", content=content, timeout=60)


class TestAlone:
    """Without a session, by a static method."""

    def test_an_observation_is_shown(self) -> None:
        with RunningServer(create_fastapi_app(StaticEnvironment, Add, Total)) as server:
            assert httpx.get(f"{server.url}/web/config").json()["views"] is True
            assert post(server, {"total": 2}).json() == {"html": "<b>2</b>"}
            assert post(server, {"total": 8}).json() == {"html": None}
            assert post(server, {"total": 2}, environment="another").json() == {"html": None}
            assert server.sessions.active_sessions == 0

    def test_what_fails_is_said(self) -> None:
        with RunningServer(create_fastapi_app(StaticEnvironment, Add, Total)) as server:
            assert post(server, {}).json() == {"problem": "'total'"}
            assert "Expected render_web() to return HTML" in post(server, {"total": 7}).json()["problem"]
            assert post(server, b"{").status_code == 422
            assert post(server, b'{"observation": {}}').status_code == 422
            assert post(server, {"total": "x" * 5_000_000}).status_code == 413

    @pytest.mark.parametrize(
        ("environment", "isolation"),
        [(ShowingEnvironment, "none"), (CounterEnvironment, "none"), (StaticEnvironment, "process")],
    )
    def test_there_is_no_such_route_where_an_instance_or_a_process_would_be_needed(
        self, environment: Any, isolation: Any
    ) -> None:
        with RunningServer(create_fastapi_app(environment, Add, Total, isolation=isolation)) as server:
            assert httpx.get(f"{server.url}/web/config").json()["views"] is False
            assert post(server, {"total": 2}).status_code in (404, 405)
