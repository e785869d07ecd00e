"""Pages that environments make with Gradio, which the public package's own interpreter has."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.public_package import ROOT
from tests.interop.conftest import PROGRAMS, Interpreters

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def http(interpreters: Interpreters) -> Iterator[httpx.Client]:
    [packages] = Path(interpreters["public"]).parent.parent.glob("lib/python*/site-packages")
    command = [sys.executable, "-m", f"{PROGRAMS}.gradio_server", str(packages)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=120) as client:
            yield client
        process.kill()


def press(http: httpx.Client, button: str, *values: Any) -> Any:
    """Have Gradio call what a button calls, as its page does; return what it shows."""
    begun = http.post(f"/web/custom/gradio_api/call/{button}", json={"data": values})
    events = http.get(f"/web/custom/gradio_api/call/{button}/{begun.json()['event_id']}").text
    assert events.startswith("event: complete"), events
    return json.loads(events.split("data: ", 1)[1])[0]


def test_the_builder_s_page_is_played(http: httpx.Client) -> None:
    page = http.get("/web/custom/")
    assert (page.status_code, "gradio" in page.text) == (200, True)
    assert press(http, "reset")["total"] == 0
    stepped = press(http, "step", 4)
    assert (stepped["observation"]["total"], stepped["reward"]) == (4, 4)
    assert press(http, "state")["step_count"] == 1
    assert http.get("/web/state").json()["step_count"] == 1, "the session that all routes below /web share"


def test_the_address_and_our_page_lead_there(http: httpx.Client) -> None:
    assert http.get("/").headers["location"] == "/web/custom/"
    assert http.get("/web/config").json()["custom"] == "Board"
    assert "script-src 'self'" in http.get("/web/").headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/web/custom/", "/web/custom/config", "/web/custom/gradio_api/info"])
def test_it_is_guarded_as_every_route(http: httpx.Client, path: str) -> None:
    assert http.get(path, headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 401
    assert http.get(path, headers={"Host": "evil.example"}).status_code == 403
    assert http.get(path, headers={"Origin": "https://evil.example"}).status_code == 403
