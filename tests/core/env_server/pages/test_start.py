"""What a server shows to browsers, as they ask for it; ``tests/browser`` looks at the pages in one."""

import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer

from openenv.core.env_server.app import HTTPEnvServer, create_app
from openenv.core.env_server.pages.docs import PUBLIC_PATHS
from openenv.core.env_server.types import EnvironmentMetadata

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}
TOKEN = "sesame-open-wide"
HOSTILE = '<script>alert(1)</script> & "more"'


class Hostile(CounterEnvironment):
    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name=HOSTILE, description=f"{HOSTILE} {{title}}")


@pytest.fixture
def locked(serve: Serve) -> Iterator[httpx.Client]:
    """A server that needs a token, as seen from elsewhere."""
    with serve(token=TOKEN).http() as http:
        http.headers.update(ELSEWHERE)
        yield http


def test_a_browser_is_shown_what_this_is_and_where_things_are(counter_server: RunningServer) -> None:
    with counter_server.http() as http:
        shown = http.get("/", headers=BROWSER)
        assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "<h1>CounterEnvironment</h1>" in shown.text
        assert f"openenv play {counter_server.url}" in shown.text
        assert f"{counter_server.url}/mcp" in shown.text
        assert f"{counter_server.url.replace('http', 'ws', 1)}/ws" in shown.text
        for link in re.findall(r'href="([a-z.]+)"', shown.text):
            assert http.get(f"/{link}").status_code == 200, link
        assert http.head("/", headers=BROWSER).status_code == 200
        assert 'href="web/"' in shown.text


@pytest.mark.parametrize("headers", [{}, {"Accept": "*/*"}, {"Accept": "application/json"}])
def test_programs_are_answered_as_before(counter_server: RunningServer, headers: dict[str, str]) -> None:
    with counter_server.http() as http:
        answer = http.get("/", headers=headers)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})
        assert http.post("/", headers=BROWSER).status_code in (404, 405)
        assert http.get("/nothing", headers=BROWSER).status_code == 404


def test_the_page_runs_nothing_and_loads_nothing(serve: Serve) -> None:
    with serve(Hostile).http() as http:
        shown = http.get("/", headers={**BROWSER, "X-Forwarded-Proto": "'<b>"})
    assert "<script" not in shown.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;more&quot; {title}" in shown.text
    policy = shown.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("said", ["false", "0", "No"])
def test_a_server_may_show_no_page(counter_server: RunningServer, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", said)
    with counter_server.http() as http:
        assert http.get("/", headers=BROWSER).json() == {"detail": "Not Found"}
        assert http.get("/docs", headers=BROWSER).status_code == 200


def test_an_application_s_own_page_wins() -> None:
    app = create_app(CounterEnvironment, Add, Total, title_override="Adding up")

    @app.get("/")
    async def home() -> str:
        return "mine"

    with RunningServer(app) as server, server.http() as http:
        assert http.get("/", headers=BROWSER).json() == "mine"
        assert http.get("/openapi.json").json()["info"]["title"] == "Adding up"


def test_an_application_of_somebody_else_s_opens_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FastAPI()
    HTTPEnvServer(CounterEnvironment, Add, Total, token=TOKEN).register_routes(app)
    with RunningServer(app) as server, server.http() as http:
        http.headers.update(ELSEWHERE)
        assert http.get("/docs").status_code == 401
        assert http.get("/", headers=BROWSER).json()["code"] == "UNAUTHORIZED"


def test_without_the_token_the_pages_say_nothing_of_the_environment(locked: httpx.Client) -> None:
    start = locked.get("/", headers=BROWSER)
    assert start.status_code == 401
    assert "needs a token" in start.text
    for answer in (start, *map(locked.get, sorted(PUBLIC_PATHS))):
        assert "CounterEnvironment" not in answer.text
        assert "content-security-policy" in answer.headers
    assert locked.get("/openapi.json").status_code == 401
    assert locked.get("/docs/openapi.json").status_code == 401
    assert locked.get("/").json()["code"] == "UNAUTHORIZED"
    authorized = {**BROWSER, "Authorization": f"Bearer {TOKEN}"}
    assert "<h1>CounterEnvironment</h1>" in locked.get("/", headers=authorized).text


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_a_page_loads_only_what_the_server_has(counter_server: RunningServer, path: str) -> None:
    with counter_server.http() as http:
        page = http.get(path).text
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert len(loaded) >= 3
        for address in loaded:
            assert address == "data:," or http.get(f"/{address}").status_code == 200, address
