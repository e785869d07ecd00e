"""Evidence of a planned episode is kept as it was on the wire, and no server ends the collection with an error."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, answering
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection

from openenv import create_app
from openenv.validation.runtime.collector import (
    MAX_MESSAGE_BYTES,
    RuntimeCollectionInterrupted,
    collect_runtime_evidence,
)
from openenv.validation.runtime.contracts import RuntimeEvidence, RuntimePlan

PLAN = RuntimePlan.model_validate(
    {"plan_schema_version": "1", "reset": {"episode_id": "probe", "seed": 7}, "actions": [{"amount": 1}, {"amount": 2}]}
)
_TIMEOUT_S = 60.0
_SCHEMA = json.dumps({"action": {}, "observation": {"type": "object"}, "state": {}}).encode()
_OBSERVATION = {"type": "observation", "data": {"observation": {}, "reward": 1.0, "done": False}}
Handler = Callable[[ServerConnection], None]


@pytest.fixture
def counter_url() -> Iterator[str]:
    with RunningServer(create_app(CounterEnvironment, Add, Total)) as server:
        yield server.url


def collect(url: str, **options: Any) -> RuntimeEvidence:
    return collect_runtime_evidence(url, PLAN, **{"episode_timeout_s": _TIMEOUT_S, **options})


def played(handler: Handler, schema: bytes = _SCHEMA, **headers: str) -> AbstractContextManager[str]:
    """Serve a schema, and sockets with a handler."""
    return answering(handler, process_request=partial(_schema_response, schema, headers))


def _schema_response(schema: bytes, headers: dict[str, str], _: ServerConnection, request: Request) -> Response | None:
    if request.path != "/schema":
        return None
    return Response(HTTPStatus.OK, "OK", Headers({"Content-Length": str(len(schema)), **headers}), schema)


def _saying(frame: str | bytes) -> Handler:
    def handle(connection: ServerConnection) -> None:
        for _ in connection:
            connection.send(frame)

    return handle


def _silent(connection: ServerConnection) -> None:
    for _ in connection:
        pass


def test_episode_is_collected_as_it_was_on_the_wire(counter_url: str) -> None:
    evidence = collect(counter_url)
    assert (evidence.failure_phase, evidence.failure_reason) == (None, None)
    assert [each.operation for each in evidence.exchanges] == ["reset", "state", "step", "state", "step", "state"]
    assert json.loads(evidence.exchanges[0].request_json)["data"] == {"seed": 7, "episode_id": "probe"}
    assert json.loads(evidence.exchanges[-1].response_json)["data"]["step_count"] == 2
    assert "properties" in json.loads(evidence.observation_schema_json or "")


@pytest.mark.level("socket")
def test_server_that_is_not_there_is_no_error() -> None:
    evidence = collect("http://127.0.0.1:1")
    assert (evidence.failure_phase, evidence.failure_reason) == ("schema", "schema failed (ConnectError)")


def test_episode_ends_with_done() -> None:
    done = {**_OBSERVATION, "data": {"observation": {}, "reward": 1.0, "done": True}}
    with played(_saying(json.dumps(done))) as url:
        evidence = collect(url)
    assert [each.operation for each in evidence.exchanges] == ["reset", "state"]
    assert evidence.failure_phase is None


@pytest.mark.parametrize(
    ("frame", "phase", "reason"),
    [
        ("garbage", "reset", "reset failed (InvalidRequestError)"),
        (b"binary", "reset", "reset failed (InvalidRequestError)"),
        ("[" * 5000, "reset", "reset failed (InvalidRequestError)"),
        ("x" * (MAX_MESSAGE_BYTES + 1), "reset", "reset failed (ConnectionClosedError)"),
        ('{"type": "error", "data": {"code": "EXECUTION_ERROR"}}', "reset", "reset failed (EXECUTION_ERROR)"),
        ('{"type": "error", "data": {"code": "<b>"}}', "reset", "reset failed (ServerError)"),
        ('{"type": "error", "data": 7}', "reset", "reset failed (ServerError)"),
    ],
)
def test_bad_answer_ends_the_collection(frame: str | bytes, phase: str, reason: str) -> None:
    with played(_saying(frame)) as url:
        evidence = collect(url)
    assert (evidence.failure_phase, evidence.failure_reason) == (phase, reason)


def test_answers_that_are_too_much_together_end_the_collection() -> None:
    frame = json.dumps({**_OBSERVATION, "filler": "x" * (MAX_MESSAGE_BYTES - 200)})
    plan = PLAN.model_copy(update={"actions": [{}] * 20})
    with played(_saying(frame)) as url:
        evidence = collect_runtime_evidence(url, plan, episode_timeout_s=_TIMEOUT_S)
    assert evidence.failure_reason == f"{evidence.failure_phase} failed (TraceTooLarge)"
    assert len(evidence.exchanges) == 8


def test_silent_server_ends_the_collection() -> None:
    with played(_silent) as url:
        evidence = collect(url, request_timeout_s=3.0)
    assert (evidence.failure_phase, evidence.failure_reason) == ("reset", "reset failed (TimeoutError)")


def test_closed_socket_ends_the_collection() -> None:
    with played(lambda connection: connection.close(1013)) as url:
        evidence = collect(url)
    assert (evidence.failure_phase, evidence.failure_reason) == ("reset", "reset failed (ConnectionClosedError)")


@pytest.mark.parametrize(
    ("schema", "headers", "reason"),
    [
        (b"no json", {}, "schema failed (InvalidRequestError)"),
        (b"[]", {}, "schema failed (NoObject)"),
        (b"\xff", {}, "schema failed (UnicodeDecodeError)"),
        (b" " * (MAX_MESSAGE_BYTES + 1), {}, "schema failed (MessageTooLarge)"),
        (_SCHEMA, {"Content-Encoding": "gzip"}, "schema failed (CompressedAnswer)"),
    ],
)
def test_bad_schema_ends_the_collection(schema: bytes, headers: dict[str, str], reason: str) -> None:
    with played(_silent, schema, **headers) as url:
        evidence = collect(url)
    assert (evidence.failure_phase, evidence.failure_reason) == ("schema", reason)


def test_schema_without_observation_is_none() -> None:
    with played(_saying(json.dumps(_OBSERVATION)), b"{}") as url:
        evidence = collect(url)
    assert (evidence.failure_phase, evidence.observation_schema_json) == (None, None)


def test_interruption_keeps_what_was_collected(monkeypatch: pytest.MonkeyPatch, counter_url: str) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("openenv.validation.runtime.collector.open_socket", interrupted)
    with pytest.raises(RuntimeCollectionInterrupted) as raised:
        collect(counter_url)
    assert raised.value.evidence.failure_phase == "connect"
    assert raised.value.evidence.observation_schema_json is not None
