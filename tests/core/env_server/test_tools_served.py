"""Environments with tools behind real servers: every wire, other processes, recovery, and hostile calls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.environments.tools import Notes, Site, Word, WordWithTools
from tests.support.servers import RunningServer, ServerProcess, V1Wire, Wire

from openenv import client_for
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    GenericMCPObservation,
    ListToolsAction,
    ListToolsObservation,
)

pytestmark = pytest.mark.timeout(180)

Isolation = Literal["none", "process"]
LIST = {"type": "list_tools"}


def calling(name: Any, **arguments: Any) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": name, "arguments": arguments}


@pytest.fixture(scope="module", params=["none", "process"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    isolation: Isolation = request.param
    return isolation


@pytest.fixture(scope="module")
def notes(isolation: Isolation) -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(Notes, max_concurrent_envs=16, isolation=isolation)) as server:
        yield server


class TestWires:
    def test_the_legacy_wire(self, notes: RunningServer) -> None:
        with notes.wire() as wire:
            tools = wire.step(**LIST)["data"]["observation"]["tools"]
            assert [tool["name"] for tool in tools] == ["write", "read", "fail", "same_thread", "submit"]
            assert wire.step(**calling("write", path="a", text="b"))["data"]["reset_needed"]
            wire.reset(episode_id="mine")
            written = wire.step(**calling("write", path="a", text="b"))
            assert written == {
                "type": "observation",
                "data": {
                    "observation": {
                        "metadata": {},
                        "tool_name": "write",
                        "result": "1 characters written",
                        "error": None,
                    },
                    "reward": None,
                    "done": False,
                },
            }
            assert wire.step(**calling("same_thread"))["data"]["observation"]["result"] is True
            submitted = wire.step(**calling("submit"))["data"]
            assert (submitted["reward"], submitted["done"], submitted["metadata"]) == (1.0, True, {"longest": 3})
            assert wire.step(**calling("read", path="a"))["type"] == "error"
            assert len(wire.step(**LIST)["data"]["observation"]["tools"]) == 5
            assert wire.state()["data"] == {"episode_id": "mine", "step_count": 3}

    def test_v1_with_sessions_that_see_only_their_own(self, notes: RunningServer) -> None:
        with notes.v1() as wire:
            one, other = wire.open(), wire.open()
            for session in (one, other):
                wire.do("reset", session)
                wire.do("step", session, **calling("write", path="a", text=session))
            for session in (one, other):
                read = wire.do("step", session, **calling("read", path="a"))
                assert read["data"]["observation"]["result"] == session

    def test_http(self, notes: RunningServer) -> None:
        with notes.http() as http:
            listed = http.post("/step", json={"action": LIST}).json()
            assert len(listed["observation"]["tools"]) == 5
            http.post("/reset", json={"shared": True})
            sent = http.post("/step", json={"action": calling("send", to="you")}).json()
            assert sent["observation"]["result"] == ["you"]
            assert http.get("/schema").json()["action"]["title"] == "CallToolAction"

    def test_clients_made_from_the_class(self, notes: RunningServer) -> None:
        with client_for(Notes)(base_url=notes.url).sync() as env:
            assert env.reset(shared=True).observation == GenericMCPObservation()
            listed = env.step(ListToolsAction()).observation
            assert isinstance(listed, ListToolsObservation)
            assert listed.tools[-1].name == "send"
            failed = env.step(CallToolAction(tool_name="read", arguments={"path": "a"})).observation
            assert isinstance(failed, CallToolObservation)
            assert failed.error is not None
            assert failed.error.message == "KeyError: 'a'"


@pytest.mark.parametrize("environment", [Site, WordWithTools])
def test_async_and_mixed_environments(environment: Any, isolation: Isolation) -> None:
    with (
        RunningServer(create_fastapi_app(environment, isolation=isolation)) as server,
        client_for(environment)(base_url=server.url).sync() as env,
    ):
        env.reset()
        if environment is Site:
            went = env.step(CallToolAction(tool_name="goto", arguments={"url": "b", "steps": 3}))
            assert went.observation.result == "b"
            assert env.step(CallToolAction(tool_name="where")).observation.result == {"page": "b", "on_loop": False}
        else:
            assert env.step(CallToolAction(tool_name="hint")).observation.result == "a bird"
            assert env.state().step_count == 0


class TestHostility:
    """Whatever is sent is carried or refused, and nothing of it is ever executed."""

    @settings(max_examples=30, deadline=None)
    @given(st.text())
    @example('"); import os; os._exit(1)')
    @example("''' \"\"\" {{7*7}} \\ \0 \u2028")
    def test_texts_arrive_as_they_were_sent(self, text: str) -> None:
        self.check(text)

    def test_long_texts_too(self) -> None:
        self.check("é" * 1_000_000)

    def check(self, text: str) -> None:
        with _Shared.server().wire() as wire:
            wire.reset()
            wire.step(**calling("write", path=text, text=text))
            assert wire.step(**calling("read", path=text))["data"]["observation"]["result"] == text
            unknown = wire.step(**calling(text))["data"]["observation"]
            assert unknown["error"]["error_type"] == "tool_not_found"
            assert len(json.dumps(unknown)) < 3_000

    @pytest.mark.parametrize(
        "wrong",
        [
            {"type": "call_tool"},
            {"type": "call_tool", "tool_name": None},
            {"type": "call_tool", "tool_name": ["write"]},
            {"type": "call_tool", "tool_name": "write", "arguments": []},
            {"type": "call_tool", "tool_name": "write", "arguments": {}, "timeout_s": 3},
            {"type": ["call_tool"], "tool_name": "write"},
            {"type": {"call_tool": 1}},
            {"type": "list_tools", "tool_name": "write"},
        ],
    )
    def test_calls_of_another_form_are_refused(self, wrong: dict[str, Any]) -> None:
        with _Shared.server().wire() as wire:
            wire.reset()
            answer = wire.step(**wrong)
            assert (answer["type"], answer["data"]["code"]) == ("error", "VALIDATION_ERROR")
            assert wire.step(**calling("write", path="a", text="b"))["type"] == "observation"

    def test_large_and_wrong_arguments_are_refused_briefly(self) -> None:
        with _Shared.server().wire() as wire:
            wire.reset()
            for arguments in ({"path": "x" * 1_000_000}, {"path": ["x"] * 100_000}, {"x" * 1_000_000: 1}):
                refused = wire.step(**calling("read", **arguments))
                assert refused["data"]["observation"]["error"]["error_type"] in ("invalid_args", "execution_error")

    def test_a_deep_argument_ends_nothing(self) -> None:
        with _Shared.server().wire() as wire:
            wire.reset()
            deep = "[" * 10_000 + "]" * 10_000
            before, after = '{"type":"step","data":{"type":"call_tool","tool_name":"read","arguments":{"path":', "}}}"
            wire.send(before + deep + after)
            wire.receive()
            assert wire.step(**calling("same_thread"))["data"]["observation"]["result"] is True


class _Shared:
    """One server for many examples."""

    _server: RunningServer | None = None

    @classmethod
    def server(cls) -> RunningServer:
        if cls._server is None:
            cls._server = RunningServer(create_fastapi_app(Notes, max_concurrent_envs=64)).start()
        return cls._server

    @classmethod
    def stop(cls) -> None:
        if cls._server is not None:
            cls._server.stop()
            cls._server = None


@pytest.fixture(scope="module", autouse=True)
def _stop_shared_server() -> Iterator[None]:
    yield
    _Shared.stop()


@pytest.mark.parametrize("environment", [Notes, Word])
def test_two_workers_serve_tools_and_unions(environment: Any) -> None:
    with ServerProcess("tools_server.py", environment.__name__, "2") as server:
        for _ in range(4):
            with Wire(f"ws://127.0.0.1:{server.port}/ws") as wire:
                wire.reset()
                if environment is Notes:
                    assert wire.step(**calling("same_thread"))["data"]["observation"]["result"] is True
                else:
                    assert wire.step(type="hint", letter=1)["data"]["observation"]["text"] == "r"


def test_an_episode_of_tool_calls_survives_its_server(tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.db")
    with ServerProcess("tools_server.py", "Notes", "1", journal) as server:
        wire = V1Wire(f"ws://127.0.0.1:{server.port}/ws")
        session, token = wire.open_with_token()
        wire.do("reset", session, seed=1)
        wire.do("step", session, **LIST)
        wire.do("step", session, **calling("write", path="a", text="before"))
        before = wire.do("state", session)["data"]
        server.kill()
        wire.close()
    with (
        ServerProcess("tools_server.py", "Notes", "1", journal) as server,
        V1Wire(f"ws://127.0.0.1:{server.port}/ws") as wire,
    ):
        attached = wire.attach(session, token)
        assert attached["type"] == "attached", attached
        assert wire.do("step", session, **calling("read", path="a"))["data"]["observation"]["result"] == "before"
        assert wire.do("state", session)["data"]["step_count"] == before["step_count"] + 1


def test_a_fork_has_its_own_notes(notes: RunningServer) -> None:
    with notes.v1() as wire:
        session = wire.open()
        wire.do("reset", session, seed=1)
        wire.do("step", session, **calling("write", path="a", text="one"))
        forked = wire.do("fork", session, count=1)
        assert forked["type"] == "forked", forked
        (other,) = [child["session"] for child in forked["data"]["sessions"]]
        wire.do("step", other, **calling("write", path="a", text="two"))
        assert wire.do("step", session, **calling("read", path="a"))["data"]["observation"]["result"] == "one"
        assert wire.do("state", other)["data"]["step_count"] == 2
