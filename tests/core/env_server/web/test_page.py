"""The routes of the page; ``tests/browser`` uses it in a browser."""

import gzip
import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer
from tests.support.vendored import FOLDER, digest, listed

from openenv.core.env_server.app import create_app, create_fastapi_app, create_web_interface_app
from openenv.core.env_server.web.page import PUBLIC_PATHS

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}
STATIC = FOLDER.parent
LARGEST_PAGE = 60_000


def imported(file: Path) -> set[str]:
    """Return the files that a module imports, which are loaded with it."""
    return _named(file, r'(?:from|import)\s*"(\.[^"]+)"')


def shown_later(file: Path) -> set[str]:
    """Return the files that a module imports when they are needed."""
    return _named(file, r'import\("(\.[^"]+)"\)')


def _named(file: Path, pattern: str) -> set[str]:
    found = re.findall(pattern, file.read_text())
    return {str((file.parent / path).resolve().relative_to(STATIC)) for path in found}


@pytest.fixture(scope="module")
def http() -> TestClient:
    return TestClient(create_app(CounterEnvironment, Add, Total))


def test_the_page_is_the_same_below_each_path(http: TestClient) -> None:
    assert http.get("/web", follow_redirects=False).headers["location"] == "/web/"
    page = http.get("/web/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "connect-src 'self'" in policy
    assert http.get("/web/traces").text == http.get("/web/live").text == page.text


@pytest.mark.level("files")
def test_every_file_that_is_imported_is_served_and_open(http: TestClient) -> None:
    loaded = {"index.html"}
    for file in STATIC.rglob("*.*js"):
        loaded |= imported(file) | shown_later(file)
    loaded |= set(re.findall(r'(?:href|src)="static/([^"]+)"', (STATIC / "index.html").read_text()))
    served = {path.removeprefix("/web/static/") for path in PUBLIC_PATHS if path.startswith("/web/static/")}
    assert served == loaded - {"index.html"}
    for name in served:
        answer = http.get(f"/web/static/{name}")
        assert answer.status_code == 200
        assert answer.text == (STATIC / name).read_text()
    for name in ("index.html", "vendor/vendor.json", "../page.py", "nothing.js"):
        assert http.get(f"/web/static/{name}").status_code == 404


@pytest.mark.level("files")
@pytest.mark.parametrize("view", sorted(shown_later(STATIC / "app.js")))
def test_the_page_stays_small(http: TestClient, view: str) -> None:
    waiting, loaded = {"start.js", "app.js", view}, {"style.css"}
    while waiting:
        name = waiting.pop()
        loaded.add(name)
        waiting |= imported(STATIC / name) - loaded
    sizes = []
    for name in loaded:
        with http.stream("GET", f"/web/static/{name}", headers={"Accept-Encoding": "gzip"}) as answer:
            content = b"".join(answer.iter_raw())
            assert gzip.decompress(content) == (STATIC / name).read_bytes()
            sizes.append(len(content))
    assert sum(sizes) < LARGEST_PAGE


def test_a_file_that_a_browser_has_is_not_sent_again(http: TestClient) -> None:
    tag = http.get("/web/static/app.js").headers["etag"]
    again = http.get("/web/static/app.js", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_what_the_server_has_for_the_page(http: TestClient) -> None:
    assert http.get("/web/config").json() == {
        "name": "CounterEnvironment",
        "play": True,
        "tools": False,
        "live": True,
        "traces": False,
        "run": False,
        "custom": None,
        "results": False,
        "compare": [],
        "beside": False,
        "views": False,
    }
    production = TestClient(create_app(CounterEnvironment, Add, Total, "counter", mode="production"))
    assert production.get("/web/config").json() == {
        "name": "counter",
        "play": False,
        "tools": False,
        "live": False,
        "traces": False,
        "run": False,
        "custom": None,
        "results": False,
        "compare": [],
        "beside": False,
        "views": False,
    }


def test_the_page_is_open_and_what_it_shows_is_not(serve: Serve) -> None:
    with serve(token="sesame-open-wide").http() as client:
        client.headers.update(ELSEWHERE)
        for path in sorted(PUBLIC_PATHS):
            answer = client.get(path)
            assert answer.status_code in (200, 307), path
            assert "Counter" not in answer.text
        for path in ("/web/config", "/metadata", "/web/static", "/web/static/../../metadata"):
            assert client.get(path).status_code == 401, path


@pytest.mark.parametrize("value", ["true", "Yes", "1"])
def test_the_address_leads_to_the_page_where_that_is_wanted(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    assert http.get("/", follow_redirects=False).status_code == 404
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", value)
    assert http.get("/", follow_redirects=False).headers["location"] == "/web/"


def test_the_public_name_makes_an_application_that_leads_to_the_page() -> None:
    app = create_web_interface_app(CounterEnvironment(), Add, Total)
    behind = FastAPI()
    behind.mount("/below", app)
    for client, root in ((TestClient(app), ""), (TestClient(behind), "/below")):
        for headers in ({}, BROWSER):
            answer = client.get(f"{root}/", headers=headers, follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (307, f"{root}/web/")


def test_a_server_may_show_no_page(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "false")
    for path in ("/", "/web", "/web/"):
        assert http.get(path, headers=BROWSER).status_code == 404


@pytest.mark.parametrize("name", sorted(listed()))
def test_the_libraries_are_those_that_were_fetched(name: str) -> None:
    assert digest((FOLDER / name).read_bytes()) == listed()[name]["sha256"], f"{name} differs: run `make vendor`"


def test_licences_of_the_libraries_are_beside_them() -> None:
    licences = (FOLDER / "LICENSES.txt").read_text()
    for file in listed().values():
        assert f"{file['package']}\n\n" in licences
    assert Path(FOLDER / "LICENSES.txt").stat().st_size > 1000


def test_a_socket_of_a_page_sends_the_token_as_a_subprotocol() -> None:
    app = create_fastapi_app(CounterEnvironment, Add, Total, token="sesame-open/wide~>>?")
    with RunningServer(app) as server:
        for protocol, status in (
            ("openenv.token.c2VzYW1lLW9wZW4vd2lkZX4-Pj8", 101),
            ("openenv.token.b3RoZXI", 401),
            ("openenv.token.%%", 401),
            ("openenv.token.", 401),
            ("openenv.token.c2VzYW1lLW9wZW4vd2lkZX4-Pj8, openenv.token.b3RoZXI", 401),
        ):
            answer = _handshake(server, f"openenv.v1, {protocol}")
            assert answer.status_code == status, protocol
            assert answer.headers.get("sec-websocket-protocol") in (None, "openenv.v1")


def _handshake(server: RunningServer, protocols: str) -> httpx.Response:
    headers = {
        **ELSEWHERE,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": protocols,
    }
    with server.http() as client, client.stream("GET", "/ws", headers=headers) as answer:
        return answer
