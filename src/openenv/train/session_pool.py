"""The sessions of one server that a training plays in: opened as they are needed, and ended together."""

import weakref
from threading import Thread
from typing import Any

from openenv.core.client.blocking import wait_for
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError
from openenv.core.sync_client import SyncEnvClient

__all__ = ["SessionPool"]

Client = SyncEnvClient[Any, Any, Any]


class SessionPool:
    """Hands out sessions with one server, which share one client and, on v1 of the wire, one connection.

    They end with `close`, with the pool when nothing holds it any more, and with the process.

    Args:
        client: The client. The pool closes it, which ends a server that was started for it.

    Example:
        >>> pool = SessionPool(openenv.make("wordle").sync())  # doctest: +SKIP
        >>> games = [pool.session() for _ in range(64)]  # doctest: +SKIP
        >>> games[0].reset(seed=1)  # doctest: +SKIP
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        # Where it is collected, any thread may be running, also that of the clients' loop, which can't wait for itself.
        self._finalizer = weakref.finalize(self, _close_in_thread, client)
        self._finalizer.atexit = False  # clients and providers see to that

    @property
    def closed(self) -> bool:
        """Whether its sessions have ended."""
        return not self._finalizer.alive

    def session(self) -> Client:
        """Return a client of a session of its own, which opens with its first use.

        Raises:
            ConfigurationError: The pool was closed.
            ProviderError: The server could not be started.
        """
        self.check_open()
        wait_for(self.client.async_client._started)
        child: EnvClient[Any, Any, Any] = self.client.async_client._child(None)
        return child.sync()

    def close(self) -> None:
        """End all sessions, and the server if it was started for them. May be called twice."""
        if self._finalizer.detach() is not None:
            self.client.close()

    def check_open(self) -> None:
        """Refuse to go on after the end.

        Raises:
            ConfigurationError: The pool was closed.
        """
        if self.closed:
            raise ConfigurationError("The environment's sessions were closed; make a new EnvSpec.")


def _close_in_thread(client: Client) -> None:
    Thread(target=client.close, name="openenv-close", daemon=True).start()
