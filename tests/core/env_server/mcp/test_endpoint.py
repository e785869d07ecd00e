"""``/mcp`` itself: who may use it, what it loads, and how a server ends that agents are connected to."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Serve
from tests.support.mcp_agents import BOTH_KINDS, PROTOCOL, BareAgent
from tests.support.processes import children_of
from tests.support.servers import PROGRAMS, RunningServer, eventually

TOKEN = "a-token"
NATIVE = {"Accept": BOTH_KINDS, "Content-Type": "application/json"}
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
_ABOUT = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _ABOUT}
PATIENCE_S = 60.0

PLAIN_APP = """
import sys
sys.path.insert(0, {root!r})
from tests.support.environments.common import Add, CounterEnvironment, Total
from openenv.core.env_server.app import create_fastapi_app
app = create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=8)
"""


class TestAccess:
    """The guard stands before both dialects, in every method."""

    REQUESTS: tuple[tuple[str, dict[str, str]], ...] = (("POST", {}), ("POST", NATIVE), ("GET", NATIVE), ("DELETE", {}))

    @pytest.mark.parametrize(("method", "headers"), REQUESTS)
    def test_a_token_is_asked_of_peers_from_elsewhere(self, serve: Serve, method: str, headers: dict[str, str]) -> None:
        with serve(token=TOKEN).http(headers={"X-Forwarded-For": "192.0.2.1"}) as http:
            content = json.dumps(LISTING)
            assert http.request(method, "/mcp", content=content, headers=headers).status_code == 401
            named = {**headers, "Authorization": f"Bearer {TOKEN}"}
            assert http.request(method, "/mcp", content=content, headers=named).status_code in (200, 400, 404, 405)

    @pytest.mark.parametrize(("method", "headers"), REQUESTS)
    @pytest.mark.parametrize("wrong", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
    def test_pages_of_other_sites_are_kept_out(
        self, counter_server: RunningServer, method: str, headers: dict[str, str], wrong: dict[str, str]
    ) -> None:
        with counter_server.http() as http:
            response = http.request(method, "/mcp", content=json.dumps(LISTING), headers={**headers, **wrong})
        assert response.status_code == 403

    def test_a_host_that_is_allowed_is_the_sdk_s_business_no_more(self, serve: Serve) -> None:
        server = serve(allowed_hosts=["env.example.com"], allowed_origins=["https://site.example.com"])
        with server.http(headers={"Host": "env.example.com", "Origin": "https://site.example.com"}) as http:
            bare = BareAgent(http)
            response = bare.connect()
            assert response.status_code == 200
            assert "Mcp-Session-Id" in response.headers["access-control-expose-headers"]
            assert bare.call("add", amount=1)["result"]["structuredContent"]["total"] == 1

    def test_a_session_of_another_agent_can_t_be_guessed(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            first, second = BareAgent(http), BareAgent(http)
            first.connect()
            second.connect()
            ids = {agent.headers["Mcp-Session-Id"] for agent in (first, second)}
            assert all(len(one) >= 32 for one in ids)
            first.call("add", amount=5)
            assert second.call("add", amount=1)["result"]["structuredContent"]["total"] == 1
            for session in counter_server.app.state.sessions:
                guess = BareAgent(http)
                guess.headers["Mcp-Session-Id"] = session.id
                assert guess.post(guess.request("ping")).status_code == 404
            for agent in (first, second):
                http.delete("/mcp", headers=agent.headers)

    def test_too_many_requests_are_refused(self, serve: Serve) -> None:
        with serve(max_messages_per_s=3).http() as http:
            bare = BareAgent(http)
            bare.connect()
            assert 429 in [bare.post(bare.request("ping")).status_code for _ in range(5)]


ACCEPTS = ["*/*", "", "application/json", "application/*;q=0.5", "text/html, */*"]


class TestAccept:
    """An agent that names no stream gets JSON, and is served as any other."""

    @pytest.mark.parametrize("accept", ACCEPTS)
    def test_an_agent_without_streams_plays(self, counter_server: RunningServer, accept: str) -> None:
        with counter_server.http(headers={"Accept": accept}) as http:
            begun = http.post("/mcp", json=INITIALIZE)
            assert begun.headers["content-type"] == "application/json"
            assert begun.json()["result"]["protocolVersion"] == PROTOCOL
            headers = {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert http.post("/mcp", json=initialized, headers=headers).status_code == 202
            totals = [http.post("/mcp", json=calling(number), headers=headers).json() for number in (1, 2)]
            assert [answer["result"]["structuredContent"]["total"] for answer in totals] == [1, 2]
            assert http.delete("/mcp", headers=headers).status_code == 200

    def test_each_request_is_answered_as_it_accepts(self, counter_server: RunningServer) -> None:
        with counter_server.http() as http:
            headers = {"Mcp-Session-Id": http.post("/mcp", json=INITIALIZE).headers["Mcp-Session-Id"]}
            kinds = []
            for accept in ("*/*", BOTH_KINDS, "application/json", "text/event-stream"):
                answer = http.post("/mcp", json=calling(3), headers={**headers, "Accept": accept})
                kinds.append(answer.headers["content-type"])
            assert kinds == ["application/json", "text/event-stream"] * 2

    @pytest.mark.parametrize("accept", [*ACCEPTS, BOTH_KINDS, "text/event-stream"])
    def test_a_stream_before_a_session_is_no_method(self, counter_server: RunningServer, accept: str) -> None:
        with counter_server.http(headers={"Accept": accept}) as http:
            for method in ("GET", "PUT", "HEAD"):
                refused = http.request(method, "/mcp")
                assert (refused.status_code, refused.headers["Allow"]) == (405, "POST, DELETE")
            assert http.get("/mcp", headers={"Mcp-Session-Id": "none"}).status_code == 404

    @pytest.mark.parametrize("number", [1.5, None, True, [], {}, -0.0])
    @pytest.mark.parametrize("method", ["initialize", "tools/list", "notifications/initialized"])
    def test_a_request_with_an_id_that_is_none_is_refused(
        self, counter_server: RunningServer, number: Any, method: str
    ) -> None:
        with counter_server.http(headers={"Accept": BOTH_KINDS}) as http:
            refused = http.post("/mcp", json={**INITIALIZE, "id": number, "method": method})
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
            assert "expected a text or a whole number" in refused.json()["error"]["message"]


def calling(number: int) -> dict[str, Any]:
    params = {"name": "add", "arguments": {"amount": 1}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_the_sdk_is_loaded_with_the_first_agent() -> None:
    program = (
        "import sys; sys.path.insert(0, {root!r})\n"
        "import json, httpx\n"
        "from tests.support.environments.common import Add, CounterEnvironment, Total\n"
        "from tests.support.servers import RunningServer\n"
        "from openenv.core.env_server.app import create_fastapi_app\n"
        "seen = []\n"
        "with RunningServer(create_fastapi_app(CounterEnvironment, Add, Total)) as server, server.http() as http:\n"
        "    http.post('/mcp', json={listing!r})\n"
        "    seen.append('mcp' in sys.modules)\n"
        "    http.post('/mcp', json={listing!r}, headers={native!r})\n"
        "    seen.append('mcp' in sys.modules)\n"
        "print(json.dumps(seen))\n"
    )
    native = {"Accept": BOTH_KINDS}
    source = program.format(root=str(PROGRAMS.parents[2]), listing=LISTING, native=native)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.strip() == "[false, true]", done.stderr


@contextmanager
def running(*command: object) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a server that prints its port first."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *map(str, command)], **pipes) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def client(port: int) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE_S, verify=False)


@contextmanager
def connected(port: int) -> Iterator[tuple[BareAgent, httpx.Response]]:
    """Connect an agent that holds a stream, too."""
    with client(port) as http:
        bare = BareAgent(http)
        bare.connect()
        with http.stream("GET", "/mcp", headers=bare.headers) as stream:
            assert stream.status_code == 200
            yield bare, stream


@pytest.mark.parametrize("workers", [1, 2])
def test_an_episode_ends_before_the_server_does(workers: int) -> None:
    with running(PROGRAMS / "drain_server.py", workers, 8, 600) as (process, port):
        with ExitStack() as others, connected(port) as (bare, stream):
            for _ in range(4):  # whose streams are some on the worker that has them, and some on the other one
                others.enter_context(connected(port))
            bare.call("add", amount=4)
            process.send_signal(signal.SIGTERM)
            eventually(lambda: drains(port), "it drains")
            eventually(lambda: len(children_of(process.pid)) in (0, 1), "the other worker has ended")
            with client(port) as bare.http:
                assert bare.call("add", amount=4)["result"]["structuredContent"] == {"total": 8, "done": False}
                assert bare.call("add", amount=4)["result"]["structuredContent"] == {"total": 12, "done": True}
            assert list(stream.iter_lines()) == [], "the stream ends with the server"
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
        assert process.stderr is not None
        log = process.stderr.read()
    assert "Traceback" not in log
    assert "ERROR" not in log


def drains(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False, verify=False).status_code == 503
    except httpx.HTTPError:  # a worker without episodes ends as it is asked
        return False


def test_a_plain_uvicorn_ends_with_an_agent_s_stream_open(tmp_path: Path) -> None:
    (tmp_path / "plain_app.py").write_text(PLAIN_APP.format(root=str(PROGRAMS.parents[2])))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number, port = listener.fileno(), listener.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "plain_app:app", "--fd", str(number)]
        process = subprocess.Popen(command, cwd=tmp_path, pass_fds=[number], stderr=subprocess.PIPE, text=True)
    with process:
        try:
            with connected(port) as (bare, stream):
                bare.call("add", amount=4)
                before = time.monotonic()
                process.send_signal(signal.SIGTERM)
                assert list(stream.iter_lines()) == []
            assert process.wait(PATIENCE_S) == -signal.SIGTERM
            assert time.monotonic() - before < 30
            assert process.stderr is not None
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
