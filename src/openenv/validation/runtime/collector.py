"""Collection of the evidence of one planned episode, from a server that may answer anything.

The server's schema is read over HTTP, then one session is played on the legacy wire, which every server speaks.
"""

import json
import re
import time
from contextlib import suppress
from typing import Any, Literal

import httpx
from websockets.sync.client import ClientConnection

from openenv.core.addresses import is_on_this_machine, socket_url, url_with_path
from openenv.core.client.client import authorized_headers
from openenv.core.wire.bounded_json import read_json
from openenv.core.wire.messages import MessageType
from openenv.validation.runtime.contracts import RuntimeEvidence, RuntimePlan, WireExchange
from openenv.validation.runtime.transport import FAULTS, abort_socket, http_deadline, open_socket

MAX_MESSAGE_BYTES = 1024 * 1024
"""Bytes of the longest answer."""
MAX_TRACE_BYTES = 8 * 1024 * 1024
"""Bytes of all requests and answers together."""

_OK = 200
# A server may send anything as its code, which stands in reports.
_CODE = re.compile(r"[A-Z][A-Z_]{0,63}", re.ASCII)

_Operation = Literal["reset", "step", "state"]


class RuntimeCollectionInterrupted(KeyboardInterrupt):
    """The collection was interrupted, as by Ctrl-C.

    Attributes:
        evidence: What was collected until then.
    """

    def __init__(self, evidence: RuntimeEvidence) -> None:
        self.evidence = evidence
        super().__init__("the collection of runtime evidence was interrupted")


def collect_runtime_evidence(
    base_url: str,
    plan: RuntimePlan,
    *,
    episode_timeout_s: float,
    request_timeout_s: float | None = None,
    token: str | None = "",
) -> RuntimeEvidence:
    """Play a planned episode, and keep its requests and answers as they were on the wire.

    The server's schema is read, then one session is opened: reset, state, and for each action step and state, until the
    episode ends. A server that answers garbage, too much or nothing ends the collection, and raises nothing.

    Args:
        base_url: Address of the server.
        plan: The episode.
        episode_timeout_s: Seconds for everything.
        request_timeout_s: Seconds for one answer; all that is left of the episode's if ``None``.
        token: Token that the server requires; empty for none, and ``None`` for that of ``OPENENV_TOKEN``.

    Returns:
        The evidence. Where something failed it has the phase and the reason, and what came before.

    Raises:
        RuntimeCollectionInterrupted: Ctrl-C ended it; the evidence until then is in the error.

    Example:
        >>> collect_runtime_evidence("http://localhost:8000", plan, episode_timeout_s=60)  # doctest: +SKIP
        RuntimeEvidence(exchanges=(WireExchange(operation='reset', request_json='{"type": "reset", ...
    """
    collection = _Collection(base_url, episode_timeout_s, request_timeout_s, authorized_headers(None, token))
    try:
        collection.run(plan)
    except _FailureError as failure:
        return collection.evidence(failure.phase, failure.reason)
    except FAULTS as error:
        return collection.evidence(collection.phase, f"{collection.phase} failed ({type(error).__name__})")
    except KeyboardInterrupt as error:
        interrupted = collection.evidence(collection.phase, f"{collection.phase} failed ({type(error).__name__})")
        raise RuntimeCollectionInterrupted(interrupted) from error
    return collection.evidence()


class _FailureError(Exception):
    """A phase failed by an answer of the server."""

    def __init__(self, phase: str, reason: str) -> None:
        self.phase = phase
        self.reason = f"{phase} failed ({reason})"
        super().__init__(self.reason)


class _Collection:
    """Evidence that is being collected.

    Attributes:
        phase: The phase that runs.
    """

    def __init__(
        self, base_url: str, episode_timeout_s: float, request_timeout_s: float | None, headers: dict[str, str]
    ) -> None:
        self.phase = "schema"
        self._base_url = base_url
        self._headers = headers
        self._deadline = time.monotonic() + episode_timeout_s
        self._request_timeout_s = request_timeout_s
        self._exchanges: list[WireExchange] = []
        self._bytes = 0
        # Set by the phase "schema".
        self._schemas: dict[str, Any] = {}

    def evidence(self, phase: str | None = None, reason: str | None = None) -> RuntimeEvidence:
        """Return what was collected."""
        return RuntimeEvidence(
            exchanges=tuple(self._exchanges),
            observation_schema_json=self._schema("observation"),
            failure_phase=phase,
            failure_reason=reason,
            reset_observation_schema_json=self._schema("reset_observation"),
        )

    def run(self, plan: RuntimePlan) -> None:
        """Read the schema and play the episode."""
        self._schemas = self._read_schemas()
        self.phase = "connect"
        with open_socket(
            socket_url(self._base_url), self._headers, timeout_s=self._timeout_s(), max_bytes=MAX_MESSAGE_BYTES
        ) as connection:
            is_played = False
            try:
                self._play(connection, plan)
                is_played = True
            finally:
                if not is_played:
                    abort_socket(connection.socket)  # no handshake with a server that does not keep to the wire
            with suppress(*FAULTS):
                connection.send(json.dumps({"type": MessageType.CLOSE}))

    def _play(self, connection: ClientConnection, plan: RuntimePlan) -> None:
        reset = {**plan.reset.options, "seed": plan.reset.seed, "episode_id": plan.reset.episode_id}
        is_done = self._exchange(connection, "reset", reset)
        self._exchange(connection, "state")
        for action in plan.actions:
            if is_done:
                return
            is_done = self._exchange(connection, "step", action)
            self._exchange(connection, "state")

    def _exchange(self, connection: ClientConnection, operation: _Operation, data: Any = None) -> bool:
        """Send a request and keep it with its answer; return whether the episode has ended with it."""
        self.phase = operation
        request = json.dumps({"type": operation} if operation == "state" else {"type": operation, "data": data})
        connection.send(request)
        frame = connection.recv(timeout=self._timeout_s())
        answer = frame if isinstance(frame, str) else None
        document = read_json(answer, MAX_MESSAGE_BYTES)
        self._keep(WireExchange(operation, request, answer or ""))
        kind = document.get("type") if isinstance(document, dict) else None
        content = document.get("data") if isinstance(document, dict) else None
        if kind == MessageType.ERROR:
            raise _FailureError(operation, _code_of(content))
        return isinstance(content, dict) and content.get("done") is True

    def _keep(self, exchange: WireExchange) -> None:
        self._bytes += len(exchange.request_json.encode()) + len(exchange.response_json.encode())
        if self._bytes > MAX_TRACE_BYTES:
            raise _FailureError(exchange.operation, "TraceTooLarge")
        self._exchanges.append(exchange)

    def _read_schemas(self) -> dict[str, Any]:
        headers = {**self._headers, "Accept-Encoding": "identity"}
        timeout_s, content = self._timeout_s(), bytearray()
        url = url_with_path(self._base_url, "/schema")
        with (
            http_deadline(timeout_s) as extensions,
            httpx.Client(trust_env=not is_on_this_machine(self._base_url), timeout=timeout_s) as client,
            client.stream("GET", url, headers=headers, extensions=dict(extensions)) as response,
        ):
            if response.status_code != _OK:
                raise _FailureError("schema", f"HTTP_{response.status_code}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise _FailureError("schema", "CompressedAnswer")
            for piece in response.iter_raw():
                content += piece
                if len(content) > MAX_MESSAGE_BYTES:
                    raise _FailureError("schema", "MessageTooLarge")
        document = read_json(content.decode("utf-8"), MAX_MESSAGE_BYTES)
        if not isinstance(document, dict):
            raise _FailureError("schema", "NoObject")
        return document

    def _schema(self, name: str) -> str | None:
        found = self._schemas.get(name)
        return json.dumps(found) if isinstance(found, dict) else None

    def _timeout_s(self) -> float:
        """Return the seconds that the next answer may take."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the episode's time is over")
        return left_s if self._request_timeout_s is None else min(left_s, self._request_timeout_s)


def _code_of(content: Any) -> str:
    """Return the code of an error's answer, if it is one."""
    code = content.get("code") if isinstance(content, dict) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "ServerError"
