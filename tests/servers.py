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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn
from fastapi import FastAPI
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as serve_sockets

from openenv.core.env_server.app import HTTPEnvServer

PROGRAMS = Path(__file__).parent / "core" / "programs"
_PATIENCE_S = 5.0


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = _PATIENCE_S) -> None:
    """Wait for something that no event announces."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.002)


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
            timeout_graceful_shutdown=2,
            ws_per_message_deflate=False,
            **settings,
        )
        self._server = _PromptServer(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.listener]}, daemon=True)

    @property
    def sessions(self) -> HTTPEnvServer:
        """The sessions behind the application."""
        server = self.app.state.server
        assert isinstance(server, HTTPEnvServer)
        return server

    def start(self) -> Self:
        self._thread.start()
        self.errors.attach(self._thread)
        return self

    def stop(self) -> None:
        """End the server, and fail if it met an exception that nobody handled. May be called twice."""
        if not self._thread.is_alive():
            return
        self._server.end()
        self._thread.join(10)
        self.listener.close()
        self.errors.detach()
        assert not self._thread.is_alive(), "the server did not end"
        self.assert_no_errors()

    def assert_no_errors(self) -> None:
        """Fail, once, for what the server's machinery has reported so far."""
        messages, self.errors.messages = self.errors.messages, []
        messages = [message for message in messages if not message.startswith(_UVICORN_S_OWN)]
        assert not messages, "\n".join(messages)

    def wire(self, path: str = "/ws") -> "Wire":
        return Wire(f"ws://127.0.0.1:{self.port}{path}")

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

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._opened = ExitStack()
        self.socket: ClientConnection = self._opened.enter_context(
            connect(url, compression=None, max_size=None, proxy=None, additional_headers=headers, ping_interval=None)
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


class ServerProcess:
    """A program of ``tests/core/programs`` that serves in a process of its own; it prints its port first."""

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
        self.process.wait(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def answering(handler: Callable[[ServerConnection], None]) -> Iterator[str]:
    """Serve sockets with a handler that plays a server of the test's own making; gives its address."""
    with serve_sockets(handler, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join(5)
