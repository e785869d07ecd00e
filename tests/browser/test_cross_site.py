"""What a page in a real browser can do to a server on this machine: nothing, unless it is the server's own."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer
from tests.support.services.chromium import open_chromium

from openenv.core.env_server.app import create_fastapi_app

# Both names lead to this machine: the browser is told so, as by a name server that an attacker runs.
EVIL = "evil.test"
RULES = f"MAP {EVIL} 127.0.0.1"


class WatchedEnvironment(CounterEnvironment):
    """Notes whatever is done with it."""

    calls: list[str] = []  # noqa: RUF012  # of all instances, on purpose

    def __init__(self) -> None:
        super().__init__()
        self.calls.append("make")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium for which the attacker's name leads to this machine."""
    with open_chromium(f"--host-resolver-rules={RULES}") as browser:
        yield browser


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """The server that pages try to reach."""
    WatchedEnvironment.calls.clear()
    with RunningServer(create_fastapi_app(WatchedEnvironment, Add, Total, max_concurrent_envs=8)) as server:
        yield server


@contextmanager
def page_at(browser: Any, url: str) -> Iterator[Any]:
    page = browser.new_page()
    try:
        page.goto(url)
        yield page
    finally:
        page.close()


@pytest.fixture
def site() -> Iterator[int]:
    """A web site of somebody else's: the port of a server that answers an empty page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>a site</title>")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web.server_port
        finally:
            web.shutdown()
            thread.join()


ATTACKS = {
    "read": "fetch(url + '/schema').then(r => r.text())",
    "read with a cookie": "fetch(url + '/schema', {credentials: 'include'}).then(r => r.text())",
    "read without cors": "fetch(url + '/state', {mode: 'no-cors'}).then(r => r.text())",
    "reset": "fetch(url + '/reset', {method: 'POST'}).then(r => r.text())",
    "reset without cors": "fetch(url + '/reset', {method: 'POST', mode: 'no-cors'}).then(r => r.text())",
    "step as text": (
        "fetch(url + '/step', {method: 'POST', mode: 'no-cors', body: '{\"action\": {\"amount\": 1}}',"
        " headers: {'Content-Type': 'text/plain'}}).then(r => r.text())"
    ),
    "step as json": (
        "fetch(url + '/step', {method: 'POST', body: '{\"action\": {\"amount\": 1}}',"
        " headers: {'Content-Type': 'application/json'}}).then(r => r.text())"
    ),
    "end a session": "fetch(url + '/session', {method: 'DELETE'}).then(r => r.text())",
    "beacon": "navigator.sendBeacon(url + '/reset') && after(() => fetch(url + '/x', {mode: 'no-cors'}))",
    "image": "loaded('img', url + '/state')",
    "script": "loaded('script', url + '/state')",
    "frame": "loaded('iframe', url + '/state').then(frame => frame.contentDocument.body.innerText)",
    "form": "submitted(url + '/reset')",
    "websocket": "reset_over(url.replace('http', 'ws') + '/ws', [])",
    "websocket on v1": "reset_over(url.replace('http', 'ws') + '/ws', ['openenv.v1'])",
}

TOOLS = """
const after = async (f) => { await f(); return '' };
const loaded = (tag, src) => new Promise((done, failed) => {
  const element = document.createElement(tag);
  element.onload = () => done(element);
  element.onerror = () => failed(new Error('refused'));
  element.src = src;
  document.body.append(element);
});
const submitted = (action) => new Promise((done) => {
  const frame = document.createElement('iframe');
  frame.name = 'target';
  document.body.append(frame);
  const form = document.createElement('form');
  Object.assign(form, {action, method: 'POST', target: 'target'});
  document.body.append(form);
  frame.onload = () => {
    let text = '';
    try { text = frame.contentDocument.body.innerText } catch (error) { text = '' }
    done(text);
  };
  form.submit();
});
const reset_over = (url, protocols) => new Promise((done, failed) => {
  const socket = new WebSocket(url, protocols);
  const first = protocols.length ? {type: 'open', id: 1} : {type: 'reset'};
  socket.onopen = () => socket.send(JSON.stringify(first));
  socket.onmessage = (event) => { socket.close(); done(event.data) };
  socket.onerror = () => failed(new Error('refused'));
});
"""


def attempt(page: Any, attack: str, url: str) -> str:
    """Have a page try something; returns what it could read, nothing where it was refused."""
    script = f"async (url) => {{ {TOOLS} try {{ return String(await {ATTACKS[attack]}) }} catch (e) {{ return '' }} }}"
    seen: str = page.evaluate(script, url)
    return seen


def refused(seen: str) -> bool:
    """Whether a page has read nothing, or nothing but the refusal, which tells it nothing of the server's."""
    return not seen or seen.startswith("[object") or json.loads(seen).get("code") == "UNAUTHORIZED"


@pytest.mark.parametrize("origin", [f"http://{EVIL}", "http://127.0.0.1", "http://localhost"])
def test_a_page_of_another_origin_can_neither_read_nor_drive(
    browser: Any, server: RunningServer, site: int, origin: str
) -> None:
    with page_at(browser, f"{origin}:{site}/") as page:
        for attack in ATTACKS:
            assert not attempt(page, attack, server.url).strip().startswith("{"), attack
            assert WatchedEnvironment.calls == [], attack


def test_a_page_whose_name_was_pointed_at_this_machine_can_do_no_more(browser: Any, server: RunningServer) -> None:
    # To the browser, the server is now of the page's own origin: nothing but the name is wrong.
    url = f"http://{EVIL}:{server.port}"
    with page_at(browser, f"{url}/schema") as page:
        assert json.loads(page.inner_text("body"))["code"] == "UNAUTHORIZED"
        for attack in ATTACKS:
            assert refused(attempt(page, attack, url)), attack
            assert WatchedEnvironment.calls == [], attack


def test_a_page_of_the_server_s_own_can(browser: Any, server: RunningServer) -> None:
    with page_at(browser, f"{server.url}/schema") as page:
        for attack in ("read", "reset", "step as json", "form", "websocket", "websocket on v1"):
            seen = json.loads(attempt(page, attack, server.url))
            assert "code" not in seen, attack
    assert WatchedEnvironment.calls != []


def test_a_page_of_an_allowed_origin_can(browser: Any, site: int) -> None:
    origin = f"http://{EVIL}:{site}"
    app = create_fastapi_app(WatchedEnvironment, Add, Total, max_concurrent_envs=8, allowed_origins=[origin])
    with RunningServer(app) as server, page_at(browser, f"{origin}/") as page:
        for attack in ("read", "reset", "step as json", "websocket", "websocket on v1"):
            seen = json.loads(attempt(page, attack, server.url))
            assert "code" not in seen, attack


def test_a_link_may_lead_to_the_server(browser: Any, server: RunningServer, site: int) -> None:
    with page_at(browser, f"http://{EVIL}:{site}/") as page:
        page.evaluate("(url) => { location.href = url }", f"{server.url}/schema")
        page.wait_for_url(f"{server.url}/schema")
        assert "amount" in page.inner_text("body")
