"""A server in this process, so that an environment's breakpoints, prints and patches work as anywhere else."""

import asyncio
import socket
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

from openenv.core.exceptions import ProviderError
from openenv.core.import_guard import refuse_while_importing
from openenv.core.providers.base import RuntimeProvider

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

_HOST = "127.0.0.1"
# Time that a server may need to end in order. A server whose environment hangs ends with the process.
_GRACE_S = 15.0


class InProcessProvider(RuntimeProvider):
    """Serves an application in a thread of this process, on a port that only this machine reaches.

    Clients speak to it as to any other server: requests and answers go through the same bytes. A step that ends its
    process ends this one. Where the application requires a token of this machine, too, and has none, one is made.
    """

    def __init__(self, make_app: "Callable[[], FastAPI]") -> None:
        self._make_app = make_app
        self._server: uvicorn.Server | None = None
        self._thread: Thread | None = None
        self._base_url = ""
        self._token: str | None = None

    @property
    def token(self) -> str | None:
        """The token that clients on this machine need; ``None`` where they need none."""
        return self._token

    @property
    def base_url(self) -> str:
        """The server's address. Raises ``ProviderError`` while none is running."""
        if self._server is None:
            raise ProviderError("No server is running in this process; call start() first.")
        return self._base_url

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server and return at once.

        Args:
            port: Port to serve on; a free one if ``None``.
            env_vars: There can be none: the environment has this process's.
            **kwargs: There are none; this signature is every provider's.

        Raises:
            ConfigurationError: The application can't be made.
            ProviderError: The port is in use, or this provider is running a server already.
        """
        import uvicorn

        from openenv.core.env_server.access.guard import make_missing_token
        from openenv.core.env_server.operations.drain import DrainingServer, sessions_of
        from openenv.core.env_server.serving import prepare, uvicorn_settings

        refuse_while_importing()
        if env_vars or kwargs:
            others = ", ".join([*(env_vars or {}), *kwargs])
            raise ProviderError(f"A server in this process is started with a port only, but got {others} too.")
        if self._server is not None:
            raise ProviderError(f"A server is running at {self._base_url} already; stop() it before the next start().")
        app = self._make_app()
        self._token = make_missing_token(app)
        prepare(app)
        try:
            listener = socket.create_server((_HOST, port or 0), backlog=2048)
        except OSError as error:
            raise ProviderError(f"The server could not be started: {error}") from error
        settings = {**uvicorn_settings("warning", None, None), "log_config": None}  # the program's own log stays
        self._server = DrainingServer(uvicorn.Config(app, **settings), sessions_of(app))
        self._base_url = f"http://{_HOST}:{listener.getsockname()[1]}"
        self._thread = Thread(target=_serve, args=(self._server, listener), name="openenv-server", daemon=True)
        self._thread.start()
        self._stop_at_exit()
        return self._base_url

    def stop(self) -> None:
        """End the server: its sessions' environments are closed. May be called twice."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        server.should_exit = True
        self._thread.join(_GRACE_S)
        self._stopped()

    def check_alive(self) -> None:
        """Raise ``ProviderError`` if the server has ended."""
        if self._server is not None and self._thread is not None and not self._thread.is_alive():
            raise ProviderError("The server in this process has ended; the log has the reason.")


def _serve(server: "uvicorn.Server", listener: socket.socket) -> None:
    with listener:
        asyncio.run(server.serve([listener]))
