"""``openenv conformance``: our server keeps to every page, and each departure from the pages is found and quoted."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import LegacyOnly, RunningServer, answering
from typer.testing import CliRunner
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection
from websockets.typing import Subprotocol

from openenv import create_app
from openenv.cli.__main__ import app
from openenv.validation.conformance import PARTS, check_conformance
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus

_TIMEOUT_S = 60.0
_SHORT_S = 1.0
Answer = Callable[[Any], Any]

OBSERVATION = {"type": "observation", "data": {"observation": {}, "reward": None, "done": False}}
STATE = {"type": "state", "data": {"episode_id": None}}


@pytest.fixture
def url() -> Iterator[str]:
    with RunningServer(create_app(CounterEnvironment, Add, Total, max_concurrent_envs=8)) as server:
        yield server.url


def conformance(url: str, *parts: str, timeout_s: float = _TIMEOUT_S) -> dict[str, CheckResult]:
    return {result.check_id: result for _, result in check_conformance(url, parts=parts or None, timeout_s=timeout_s)}


def test_our_server_keeps_to_every_page(url: str) -> None:
    found = conformance(url)
    assert {name: result.evidence for name, result in found.items() if result.status is CheckStatus.FAIL} == {}
    skipped = [name for name, result in found.items() if result.status is CheckStatus.SKIP]
    assert skipped == ["tasks.routes"]
    assert len(found) == sum(len(part.checks) for part in PARTS)


def test_wire_that_is_not_offered_is_left_out() -> None:
    with RunningServer(LegacyOnly(create_app(CounterEnvironment, Add, Total))) as server:  # type: ignore[arg-type]  # an application, too
        found = conformance(server.url, "legacy", "v1")
    statuses = {name.partition(".")[0]: result.status for name, result in found.items()}
    assert statuses == {"legacy": CheckStatus.PASS, "sessions": CheckStatus.SKIP}
    assert found["sessions.open"].evidence == ["not offered: the handshake has chosen no subprotocol, not openenv.v1"]


def _good(request: Any) -> Any:
    """Answer as the page of the legacy wire says."""
    if not isinstance(request, dict):
        return _error("INVALID_JSON")
    kind = request.get("type")
    if kind == "state":
        return _error("VALIDATION_ERROR") if "data" in request else STATE
    if kind == "step":
        return OBSERVATION if request.get("data") == {} else _error("VALIDATION_ERROR")
    return OBSERVATION if kind == "reset" else _error("UNKNOWN_TYPE")


def _error(code: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": "no", "code": code}}


def _served(answer: Answer, connection: ServerConnection, *, closes_with: int = 1000) -> None:
    for frame in connection:
        try:
            request = json.loads(frame)
        except ValueError:
            request = None
        if isinstance(request, dict) and request.get("type") == "close":
            connection.close(closes_with)
            return
        connection.send(json.dumps(answer(request)))


def _routes(_: ServerConnection, request: Request) -> Response | None:
    return None if request.path == "/ws" else Response(HTTPStatus.NOT_FOUND, "none", Headers({"Content-Length": "0"}))


def _legacy(answer: Answer, **settings: Any) -> dict[str, CheckResult]:
    with answering(partial(_served, answer, **settings), process_request=_routes) as url:
        return conformance(url, "legacy", timeout_s=_SHORT_S)


def _instead(kind: str, answer: Any) -> Answer:
    """Answer requests of a type with something else."""
    return lambda request: answer if isinstance(request, dict) and request.get("type") == kind else _good(request)


def test_any_server_that_keeps_to_the_page_passes() -> None:
    assert {name: result.evidence for name, result in _legacy(_good).items() if result.evidence} == {}


@pytest.mark.parametrize(
    ("answer", "check", "came"),
    [
        (_instead("reset", {"observation": {}}), "legacy.reset", 'came {"observation": {}}'),
        (_instead("reset", {**OBSERVATION, "data": {"observation": {}}}), "legacy.reset", "expected an"),
        (_instead("step", STATE), "legacy.step", 'came {"type": "state"'),
        (_instead("state", OBSERVATION), "legacy.state", 'expected a "state"'),
        (_instead("bogus", _error("INVALID_JSON")), "legacy.errors", "the code UNKNOWN_TYPE"),
        (_instead("bogus", {"type": "error", "data": {"code": "UNKNOWN_TYPE"}}), "legacy.errors", "a message"),
    ],
)
def test_departure_from_the_page_is_found_and_quoted(answer: Answer, check: str, came: str) -> None:
    result = _legacy(answer)[check]
    assert result.status is CheckStatus.FAIL
    assert any(came in line for line in result.evidence), result.evidence


def test_other_end_of_a_session_is_found() -> None:
    found = _legacy(_good, closes_with=1011)
    assert [name for name, result in found.items() if result.status is CheckStatus.FAIL] == ["legacy.close"]
    assert found["legacy.close"].evidence[0].endswith("came 1011")


def test_server_that_does_not_answer_fails_every_check() -> None:
    with answering(lambda connection: connection.close(1013), process_request=_routes) as url:
        found = conformance(url, "legacy", timeout_s=_SHORT_S)
    assert {result.status for result in found.values()} == {CheckStatus.FAIL}
    assert "received 1013" in found["legacy.reset"].evidence[0]


def _careless(connection: ServerConnection) -> None:
    """Speak v1 without ids, and carry each request out whatever its id."""
    steps = 0
    for frame in connection:
        messages = json.loads(frame)
        for request in messages if isinstance(messages, list) else [messages]:
            steps += 1
            kinds = {"open": "opened", "close": "closed", "attach": "attached", "state": "state"}
            data = {"token": "t", "resume_window_s": 30, "max_message_bytes": 1, "last_id": 0, "steps": steps}
            answer = {"type": kinds.get(request["type"], "observation"), "session": "one", "data": data}
            if answer["type"] == "observation":
                answer["data"] = {"observation": {"steps": steps}, "reward": None, "done": False}
            connection.send(json.dumps(answer))


def test_departures_from_v1_are_found() -> None:
    with answering(_careless, subprotocols=[Subprotocol("openenv.v1")], process_request=_routes) as url:
        found = conformance(url, "v1", timeout_s=_SHORT_S)
    failed = {name for name, result in found.items() if result.status is CheckStatus.FAIL}
    assert failed == {f"sessions.{name}" for name in ("open", "requests", "repetition", "frames", "close", "attach")}
    assert "with the id 41" in found["sessions.open"].evidence[0]


def test_command_shows_sentences_and_ends_with_its_status(url: str) -> None:
    passed = CliRunner().invoke(app, ["conformance", url, "--part", "legacy", "--json"])
    assert passed.exit_code == 0, passed.output
    results = json.loads(passed.stdout)["results"]
    assert {result["status"] for result in results} == {"pass"}
    assert results[0]["page"] == "wire.md"
    failed = CliRunner().invoke(app, ["conformance", "http://127.0.0.1:1", "--part", "legacy"])
    assert failed.exit_code == 1
    assert "one socket is one session" in failed.stdout
    assert CliRunner().invoke(app, ["conformance", url, "--part", "bogus"]).exit_code == 2
