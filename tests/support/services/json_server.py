"""A server of an HTTP API for tests: it notes what was asked of it, and goes wrong on demand."""

import json
import re
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit


class Request(NamedTuple):
    """What came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def line(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Answer(NamedTuple):
    """What goes out."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}


@dataclass
class Fault:
    """What goes wrong, and how often.

    Attributes:
        where: Method and path, as a regular expression.
        answer: What is answered instead; ``None`` cuts the connection.
        times: How often.
        done: Whether it is done all the same, and only the answer is lost.
        late: After how many further requests it is done.
    """

    where: str
    answer: Answer | None = None
    times: int = 1
    done: bool = False
    late: int = 0


class JsonServer:
    """An API: what was asked of it, and what is to go wrong. Requests are answered by one thread at a time."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self._late: list[tuple[int, Request]] = []
        self.url = ""
        self._lock = threading.RLock()

    def lines(self) -> list[str]:
        """Method and path of each request, in order."""
        return [request.line for request in self.requests]

    def answer(self, request: Request) -> Answer | None:
        """Answer a request; ``None`` cuts the connection."""
        with self._lock:
            self.requests.append(request)
            self._catch_up()
            for fault in self.faults:
                if fault.times and re.fullmatch(fault.where, request.line):
                    fault.times -= 1
                    if fault.done:
                        self._late.append((len(self.requests) + fault.late, request))
                        self._catch_up()
                    return fault.answer
            return self._route(request)

    def _catch_up(self) -> None:
        """Do what was to be done late, and is due by now."""
        due = [request for number, request in self._late if number <= len(self.requests)]
        self._late = [each for each in self._late if each[0] > len(self.requests)]
        for request in due:
            self._route(request)

    def _route(self, request: Request) -> Answer:
        return Answer(404, {"error": f"no such endpoint: {request.line}"})


ServiceT = TypeVar("ServiceT", bound=JsonServer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: JsonServer

    def _answer(self) -> None:
        address = urlsplit(self.path)
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.service.answer(Request(self.command, address.path, parse_qs(address.query), headers, body))
        if answer is None:
            self._cut()
            return
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815  # as they are looked for

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as it is called
        """Say nothing: the tests look at ``requests``."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that went."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(service: ServiceT, certificate: ssl.SSLContext | None = None) -> Iterator[ServiceT]:
    """Serve an API for a while, encrypted if there is a certificate, which is for ``localhost``."""
    handler = type("Handler", (_Handler,), {"service": service})
    with _Server(("127.0.0.1", 0), handler) as server:
        service.url = f"http://127.0.0.1:{server.server_port}"
        if certificate is not None:
            server.socket = certificate.wrap_socket(server.socket, server_side=True)
            service.url = f"https://localhost:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()
