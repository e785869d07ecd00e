"""Real servers and bare sockets for the tests."""

import asyncio
import json
import logging
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as serve_sockets
from websockets.typing import Subprotocol

from openenv.core.env_server.app import HTTPEnvServer
from openenv.core.env_server.operations.drain import keep_to_limits, sessions_of
from openenv.core.env_server.websocket.uvicorn_sockets import SOCKETS

PROGRAMS = Path(__file__).parent / "programs"
_PATIENCE_S = 60.0


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = _PATIENCE_S) -> None:
    """Wait for something that no event announces."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.002)


def ticks(duration_s: float, interval_s: float = 0.1) -> Iterator[None]:
    """Yield now and after each interval, until so much time has passed: for what is done all the while.

    A loop without a pause takes as much CPU time as the machine has to give, and so costs another amount each time.
    """
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        yield
        time.sleep(interval_s)


# uvicorn logs a text frame that is no UTF-8 with a traceback, closes the socket, and tells the application nothing.
_UVICORN_S_OWN = "Invalid UTF-8 sequence received from client."


class RunningServer:
    """An application in a real uvicorn, in a thread, on a port of its own."""

    def __init__(self, app: FastAPI, **settings: Any) -> None:
        self.app = app
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.errors = _ErrorLog()
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            ws_per_message_deflate=False,
            **{"ws": SOCKETS, "timeout_graceful_shutdown": 2, **settings},
        )
        sessions = sessions_of(app)
        if sessions is not None:  # as DrainingServer does
            keep_to_limits(config, sessions.limits)
        self._server = _PromptServer(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.listener]}, daemon=True)

    @property
    def sessions(self) -> HTTPEnvServer:
        """The sessions behind the application."""
        server = self.app.state.server
        assert isinstance(server, HTTPEnvServer)
        return server

    @property
    def connections(self) -> int:
        """Sockets that clients have open."""
        return len(self._server.server_state.connections)

    @property
    def unsent_bytes(self) -> int:
        """What the server holds for clients that have not read it yet."""
        return sum(connection.transport.get_write_buffer_size() for connection in self._connections())

    def _connections(self) -> list[Any]:
        return list(self._server.server_state.connections)

    def start(self) -> Self:
        self._thread.start()
        self.errors.attach(self._thread)
        return self

    def stop(self) -> None:
        """End the server, and fail if it met an exception that nobody handled. May be called twice."""
        if not self._thread.is_alive():
            return
        self._server.end()
        self._thread.join(60)
        self.listener.close()
        self.errors.detach()
        assert not self._thread.is_alive(), "the server did not end"
        self.assert_no_errors()

    def assert_no_errors(self) -> None:
        """Fail, once, for what the server's machinery has reported so far."""
        messages, self.errors.messages = self.errors.messages, []
        messages = [message for message in messages if not message.startswith(_UVICORN_S_OWN)]
        assert not messages, "\n".join(messages)

    def wire(self, path: str = "/ws", headers: Mapping[str, str] | None = None) -> "Wire":
        return Wire(f"ws://127.0.0.1:{self.port}{path}", headers)

    def v1(self, headers: Mapping[str, str] | None = None) -> "V1Wire":
        return V1Wire(f"ws://127.0.0.1:{self.port}/ws", headers)

    def http(self, **settings: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False, timeout=_PATIENCE_S, **settings)

    def wait_for_sessions(self, count: int) -> None:
        eventually(
            lambda: self.sessions.active_sessions == count,
            f"{count} sessions instead of {self.sessions.active_sessions}",
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class _PromptServer(uvicorn.Server):
    """Ends when it is told to, instead of at its next tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ready = threading.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._ready.set()
        await self._end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # What a server in a process of its own learns from the signal that ends it.
        agents = getattr(getattr(self.config.app, "state", None), "agents", None)
        if agents is not None:
            agents.end_streams()
        await super().shutdown(sockets)

    def end(self) -> None:
        assert self._ready.wait(_PATIENCE_S), "the server never started"
        self._loop.call_soon_threadsafe(self._end.set)


class _ErrorLog(logging.Handler):
    """Collects what the server's own machinery reports as an error: exceptions that nobody handled."""

    _LOGGERS = ("uvicorn.error", "asyncio")

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread.ident:  # not another server's
            self.messages.append(self.format(record))

    def attach(self, thread: threading.Thread) -> None:
        self.thread = thread
        for name in self._LOGGERS:
            logging.getLogger(name).addHandler(self)

    def detach(self) -> None:
        for name in self._LOGGERS:
            logging.getLogger(name).removeHandler(self)


class Wire:
    """One socket that sends exactly what it is given."""

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, subprotocols: Sequence[Subprotocol] | None = None
    ) -> None:
        self._opened = ExitStack()
        self.socket: ClientConnection = self._opened.enter_context(
            connect(
                url,
                compression=None,
                max_size=None,
                open_timeout=_PATIENCE_S,
                proxy=None,
                additional_headers=headers,
                ping_interval=None,
                subprotocols=subprotocols,
            )
        )

    def send(self, frame: Any) -> None:
        """Send text or bytes as they are, anything else as JSON."""
        self.socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    def receive(self, timeout_s: float = _PATIENCE_S) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.socket.recv(timeout=timeout_s))
        return message

    def ask(self, frame: Any) -> dict[str, Any]:
        self.send(frame)
        return self.receive()

    def reset(self, **arguments: Any) -> dict[str, Any]:
        return self.ask({"type": "reset", "data": arguments})

    def step(self, **action: Any) -> dict[str, Any]:
        return self.ask({"type": "step", "data": action})

    def state(self) -> dict[str, Any]:
        return self.ask({"type": "state"})

    def close(self) -> None:
        self._opened.close()

    def cut(self) -> None:
        """Go without a word: the other side gets a TCP reset."""
        self.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def closing(wire: Wire) -> tuple[int, str]:
    """Code and reason with which the server closes a socket."""
    with suppress(ConnectionClosed):
        while True:
            wire.socket.recv(timeout=_PATIENCE_S)
    code, reason = wire.socket.close_code, wire.socket.close_reason
    assert code is not None
    return code, reason or ""


class V1Wire(Wire):
    """One socket on v1, whose answers come out one by one, whatever frames they came in."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(url, headers, subprotocols=[Subprotocol("openenv.v1")])
        self._arrived: deque[dict[str, Any]] = deque()
        self._ids = count(1)
        self._ids_of: dict[str, Iterator[int]] = defaultdict(lambda: count(1))

    def receive(self, timeout_s: float = _PATIENCE_S) -> dict[str, Any]:
        while not self._arrived:
            frame = json.loads(self.socket.recv(timeout=timeout_s))
            self._arrived.extend(frame if isinstance(frame, list) else [frame])
        return self._arrived.popleft()

    def receive_many(self, number: int) -> list[dict[str, Any]]:
        return [self.receive() for _ in range(number)]

    def message(self, kind: str, session: str, **data: Any) -> dict[str, Any]:
        """Make a session's next request."""
        named = {"type": kind, "id": next(self._ids_of[session]), "session": session}
        return named if kind in ("state", "render", "close") else {**named, "data": data}

    def open(self, **data: Any) -> str:
        """Open a session and return its id."""
        answer = self.ask({"type": "open", "id": next(self._ids), "data": data})
        assert answer["type"] == "opened", answer
        session: str = answer["session"]
        return session

    def open_with_token(self, **data: Any) -> tuple[str, str]:
        """Open a session and return its id and its token."""
        answer = self.ask({"type": "open", "id": next(self._ids), "data": data})
        assert answer["type"] == "opened", answer
        return answer["session"], answer["data"]["token"]

    def attach(self, session: str, token: str, **data: Any) -> dict[str, Any]:
        """Take a session up that another socket had; its requests go on where they were."""
        data = {"token": token, **data}
        answer = self.ask({"type": "attach", "id": next(self._ids), "session": session, "data": data})
        if answer["type"] == "attached":
            self._ids_of[session] = count(answer["data"]["last_id"] + 1)
        return answer

    def open_many(self, number: int) -> list[str]:
        self.send([{"type": "open", "id": next(self._ids)} for _ in range(number)])
        return [answer["session"] for answer in self.receive_many(number)]

    def do(self, kind: str, session: str, **data: Any) -> dict[str, Any]:
        """Have a session do something and return its answer, which must be the next one."""
        message = self.message(kind, session, **data)
        answer = self.ask(message)
        assert (answer["id"], answer["session"]) == (message["id"], session), answer
        return answer


def by_session(answers: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Sort what came on v1 out, each session's answers in the order in which they came."""
    sorted_out: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for answer in answers:
        sorted_out[answer["session"]].append(answer)
    return sorted_out


class ServerProcess:
    """A program of ``tests/support/programs`` that serves in a process of its own; it prints its port first."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / program), *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def wait_for_lines(self, expected: list[str]) -> None:
        """Wait for what the program prints next."""
        assert self.process.stdout is not None
        for line in expected:
            assert self.process.stdout.readline().strip() == line

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self.process.kill()
        self.process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


class LegacyOnly:
    """Around an application: it does not know v1, as the public one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["subprotocols"] = []
        await self.app(scope, receive, send)


@contextmanager
def answering(handler: Callable[[ServerConnection], None], **settings: Any) -> Iterator[str]:
    """Serve sockets with a handler that plays a server of the test's own making; gives its address."""
    with serve_sockets(handler, "127.0.0.1", 0, compression=None, **settings) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join(60)
