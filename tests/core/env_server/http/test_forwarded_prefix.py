"""A server behind a proxy that publishes it under a prefix of the path, and says so in ``X-Forwarded-Prefix``."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_web_interface_app

NAMED = {"X-Forwarded-Prefix": "/env"}
# What a proxy adds beside; its requests need the token.
BY_PROXY = {"X-Forwarded-For": "192.0.2.1", "Authorization": "Bearer a-long-token"}


def made() -> FastAPI:
    return create_web_interface_app(CounterEnvironment, Add, Total, max_concurrent_envs=8, token="a-long-token")


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(made()) as server:
        yield server


REDIRECTS = {"/": "/env/web/", "/web": "/env/web/", "/mcp/": "/env/mcp", "/health/": "/env/health"}


class TestRedirects:
    @pytest.mark.parametrize(("path", "leads_to"), REDIRECTS.items())
    @pytest.mark.parametrize("beside", [{}, BY_PROXY], ids=["a plain one", "with the client's address"])
    @pytest.mark.parametrize("sent_below", ["", "/env"], ids=["cut off", "passed on"])
    def test_they_keep_the_prefix(
        self, server: RunningServer, path: str, leads_to: str, beside: dict[str, str], sent_below: str
    ) -> None:
        with server.http(headers={**NAMED, **beside}) as http:
            answer = http.get(f"{sent_below}{path}")
        assert answer.status_code == 307
        assert answer.headers["location"].removeprefix(server.url) == leads_to

    @pytest.mark.parametrize("beside", [{}, BY_PROXY])
    def test_a_proxy_that_is_not_trusted_names_none(
        self, beside: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.7")
        with RunningServer(made()) as server, server.http(headers={**NAMED, **beside}) as http:
            assert http.get("/web").headers["location"] == "/web/"
            assert http.get("/env/web").status_code == 404

    @pytest.mark.parametrize(
        "prefix",
        ["//evil.example", "https://evil.example", "/a b", "/..", "/a/../b", "/", "", "env", "/a//b", "/" + "x" * 9000],
    )
    def test_what_is_no_prefix_is_ignored(self, server: RunningServer, prefix: str) -> None:
        with server.http(headers={"X-Forwarded-Prefix": prefix}) as http:
            assert http.get("/web").headers["location"] == "/web/"

    def test_a_server_that_was_told_the_prefix_does_not_repeat_it(self) -> None:
        with RunningServer(made(), root_path="/env") as server, server.http(headers=NAMED) as http:
            assert http.get("/web").headers["location"] == "/env/web/"


def test_everything_else_answers_below_the_prefix(server: RunningServer) -> None:
    with server.http(headers=NAMED) as http:
        assert http.post("/env/reset").status_code == http.post("/reset").status_code == 200
        assert http.get("/env/web/static/app.js").status_code == 200
        assert {"url": "/env"} in http.get("/openapi.json").json()["servers"]
        assert http.get("/environment").status_code == 404
    with server.wire("/env/ws", NAMED) as below, server.wire("/ws", NAMED) as cut_off:
        assert below.reset()["type"] == cut_off.reset()["type"] == "observation"


def test_the_guard_knows_no_prefix(server: RunningServer) -> None:
    """Paths that are open without a token are those that arrive."""
    with server.http(headers={**NAMED, "X-Forwarded-For": "192.0.2.1"}) as http:
        assert [http.get(path).status_code for path in ("/health", "/web/", "/metadata")] == [200, 200, 401]
