"""Checks of a running server by its routes."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_app
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.validation.url_checks import validate_url

CRITERIA = {
    "openapi_version_available",
    "health_endpoint",
    "metadata_endpoint",
    "schema_endpoint",
    "mcp_endpoint",
    "mode_endpoint_consistency",
}


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_a_server_of_ours_passes(mode: str) -> None:
    with RunningServer(create_app(CounterEnvironment, Add, Total, mode=mode)) as server:
        report = validate_url(f"{server.url}/")
    assert report.as_json() == {
        "target": server.url,
        "validation_type": "running_environment",
        "standard_version": "1.0.0",
        "standard_profile": "openenv-http/1.x",
        "mode": mode,
        "passed": True,
        "summary": {
            "passed_count": 6,
            "total_count": 6,
            "failed_criteria": [],
            "required_passed_count": 6,
            "required_total_count": 6,
        },
        "criteria": report.as_json()["criteria"],
    }
    assert {each.id for each in report.criteria} == CRITERIA


class Answers(BaseHTTPRequestHandler):
    """Answers each path with what a test has set; 404 elsewhere."""

    documents: ClassVar[dict[str, Any]] = {}
    authorized: ClassVar[set[str | None]] = set()

    def do_GET(self) -> None:
        self.authorized.add(self.headers["Authorization"])
        body = self.documents.get(self.path)
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Stay silent."""


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that is none of OpenEnv's; ``Answers.documents`` says what it answers."""
    monkeypatch.setattr(Answers, "documents", {})
    monkeypatch.setattr(Answers, "authorized", set())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_another_server_fails_everything_that_it_lacks(other: str) -> None:
    report = validate_url(other)
    assert (report.passed, report.mode) == (False, "unknown")
    failed = report.as_json()["summary"]["failed_criteria"]
    assert set(failed) == CRITERIA
    assert all(each.actual["status_code"] == 404 for each in report.criteria if each.id in failed)


def test_the_token_is_sent(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "secret")
    validate_url(other)
    assert Answers.authorized == {"Bearer secret"}


@pytest.mark.parametrize("document", [[1], "text", 1, b"no JSON", {"info": 1, "paths": [], "name": 1, "action": 1}])
def test_answers_of_other_kinds_fail_and_end_nothing(other: str, document: Any) -> None:
    for path in ("/openapi.json", "/health", "/metadata", "/schema", "/mcp"):
        Answers.documents[path] = document
    assert set(validate_url(other).as_json()["summary"]["failed_criteria"]) == CRITERIA


def test_some_of_the_control_routes_are_no_mode(other: str) -> None:
    Answers.documents["/openapi.json"] = {"info": {"version": "1"}, "paths": {"/reset": {}}}
    report = validate_url(other)
    assert report.mode == "unknown"
    (mode,) = [each for each in report.criteria if each.id == "mode_endpoint_consistency"]
    assert (mode.passed, mode.actual) == (False, {"/reset": True, "/step": False, "/state": False})


def test_a_server_that_is_not_there() -> None:
    report = validate_url("http://127.0.0.1:9", timeout_s=1)
    assert (report.passed, report.mode) == (False, "unknown")
    assert all("refused" in each.actual["error"] for each in report.criteria)
    assert validate_url("127.0.0.1:9", timeout_s=1) == report
    for url in ("somewhere", "ftp://somewhere", "http://"):
        with pytest.raises(EnvironmentNotFoundError, match=r"a server's address"):
            validate_url(url)
