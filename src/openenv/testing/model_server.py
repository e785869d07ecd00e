"""Server of a model that fails on purpose: OpenAI's interface on a real socket."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from types import MappingProxyType, TracebackType
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError, FailureKind

__all__ = ["MODEL_FAULTS", "FaultyModelServer"]

Message = Mapping[str, Any]
Answering = Callable[[Sequence[Message], Sequence[Mapping[str, Any]]], Message | str]
"""Function from the messages and the tools of a request to the answer: a message of OpenAI's interface, or its text."""

MODEL_FAULTS: Mapping[str, FailureKind] = MappingProxyType(
    {
        "full": FailureKind.MODEL_FULL,
        "fails": FailureKind.MODEL_FAILED,
        "unavailable": FailureKind.MODEL_FAILED,
        "html": FailureKind.MODEL_ANSWER,
        "garbage": FailureKind.MODEL_ANSWER,
        "no_choices": FailureKind.MODEL_ANSWER,
        "nothing": FailureKind.MODEL_CUT,
        "half": FailureKind.MODEL_CUT,
        "silent": FailureKind.MODEL_TIMEOUT,
    }
)
"""Names of the faults, each with the kind of failure of an episode whose requests it strikes each time."""

_STATUS = {"full": 429, "fails": 500, "unavailable": 503}
_BODIES = {
    "html": ("text/html", b"<html><body><h1>502 Bad Gateway</h1></body></html>"),
    "garbage": ("application/json", b'{"choices": [{"message": \xff\xfe'),
    "no_choices": ("application/json", b'{"id": "1", "object": "chat.completion", "choices": []}'),
}

_ANSWERED = tuple(name for name in MODEL_FAULTS if name != "silent")


class FaultyModelServer:
    """Server of a model, of which a share of the requests gets no answer that can be used; a context manager.

    A request that is struck is struck again when it is repeated, for it is known by its messages.

    Args:
        answer: Answers the requests that are not struck.
        faults: Names of faults in `MODEL_FAULTS`, one of which is drawn for each request that is struck. By default all
            but ``silent``, which takes as long as the client waits.
        share: Share of the requests that are struck, from 0 to 1.
        seed: Seed of the draws.
        times: How often each request is struck, before it is answered; ``None`` for always.

    Attributes:
        url: Address for clients, ``http://127.0.0.1:PORT/v1``; known within the block.
        counts: Number of answers by the name of their fault; ``""`` for those without.

    Raises:
        ConfigurationError: There is no such fault, or the share is no number from 0 to 1.

    Example::

        with FaultyModelServer(lambda messages, tools: "stay", faults=["full", "half"], share=0.3) as server:
            agent = ApiAgent("tiny", base_url=server.url, actions="text")
    """

    def __init__(
        self,
        answer: Answering,
        *,
        faults: Sequence[str] = _ANSWERED,
        share: float = 0.3,
        seed: int = 0,
        times: int | None = None,
    ) -> None:
        unknown = [name for name in faults if name not in MODEL_FAULTS]
        if unknown or not faults or not 0 <= share <= 1:
            raise ConfigurationError(
                f"Expected faults among {', '.join(MODEL_FAULTS)} and a share from 0 to 1, "
                f"got {list(faults)} and {share}."
            )
        self.counts: Counter[str] = Counter()
        self.url = ""
        self._answer = answer
        self._faults = list(faults)
        self._share = share
        self._seed = seed
        self._times = times
        # How often each request was struck, by its messages.
        self._struck: Counter[str] = Counter()
        self._lock = threading.Lock()
        # Set at the end, for which requests without an answer wait.
        self._ended = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        """Listen."""
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, name="faulty-model", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End, with all connections."""
        server = self._server
        assert server is not None
        self._ended.set()
        server.shutdown()
        server.server_close()

    def fault_of(self, body: Mapping[str, Any]) -> str:
        """Return the fault of a request, and count it; empty for a request that is answered."""
        key = json.dumps(body["messages"], sort_keys=True)
        random = Random(f"{self._seed} {key}")  # noqa: S311  # repeatable is what is wanted
        is_struck, fault = random.random() < self._share, random.choice(self._faults)
        with self._lock:
            if not is_struck or (self._times is not None and self._struck[key] >= self._times):
                fault = ""
            else:
                self._struck[key] += 1
            self.counts[fault] += 1
        return fault

    def completion(self, body: Mapping[str, Any]) -> bytes:
        """Return the body of an answer."""
        answer = self._answer(body["messages"], body.get("tools") or ())
        message = {"role": "assistant", "content": answer} if isinstance(answer, str) else dict(answer)
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        named = {"id": "1", "object": "chat.completion", "created": 0, "model": body.get("model", "")}
        return json.dumps({**named, "choices": [choice], "usage": usage}).encode()

    def wait_for_end(self) -> None:
        """Block until the server ends."""
        self._ended.wait()


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    owner: FaultyModelServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request, or fail at it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = self.owner.fault_of(body)
        if fault in _STATUS:
            text = json.dumps({"error": {"message": f"a fault on purpose: {fault}"}}).encode()
            self._send(text, status=_STATUS[fault])
        elif fault in _BODIES:
            media_type, text = _BODIES[fault]
            self._send(text, media_type)
        elif fault == "silent":
            self.owner.wait_for_end()
        elif fault == "nothing":
            self._cut()
        elif fault == "half":
            text = self.owner.completion(body)
            self._send(text[: len(text) // 2], length=len(text))
            self._cut()
        else:
            self._send(self.owner.completion(body))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the base
        """Write no log."""

    def _send(
        self, body: bytes, media_type: str = "application/json", status: int = 200, length: int | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        """End the connection."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
