"""The connections of an event loop to a server, and how a session is opened on either wire.

The sessions of v1 share a connection, or as many as the server has worker processes.
"""

import asyncio
import os
import re
from contextlib import suppress
from copy import copy
from typing import TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from openenv.core.connection import Connection, ConnectionSettings, open_connection
from openenv.core.env_server.protocol import V1, WORKERS_HEADER
from openenv.core.exceptions import ConnectionLostError, OpenEnvError
from openenv.core.hub import Hub
from openenv.core.links import LegacyLink, Link

_WORKERS = re.compile(r"[1-9]\d{0,3}", re.ASCII)


class Hubs:
    """The connections of one event loop to one server.

    Args:
        settings: Where to connect to, and how.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._connecting = asyncio.Lock()
        self._failure: OpenEnvError | None = None
        self._hubs: list[Hub] = []
        self._width = 1
        self._is_legacy = False

    async def link(self, timeout_s: float | None, capacity_wait_s: float) -> Link:
        """Open a session, over a connection that there is or a new one.

        Args:
            timeout_s: Seconds that the server may take for it once there is a connection; ``None`` for no limit.
            capacity_wait_s: Seconds to wait in line before that where every place is taken; on v1 only.

        Raises:
            ConfigurationError: The address or a header is none.
            ConnectionFailedError: There is no server, or it refused.
            ConnectionLostError: The connection went meanwhile.
            InvalidAnswerError: The server sent something that is no answer.
            ServerUnauthorizedError: It asks for a token, or for another one.
        """
        # Each of them may have gone without anybody noticing, and the first new one may reach a server that is ending.
        for _ in range(len(self._hubs) + 1):
            with suppress(ConnectionLostError):
                return await self._link(timeout_s, capacity_wait_s)
        return await self._link(timeout_s, capacity_wait_s)

    async def _link(self, timeout_s: float | None, capacity_wait_s: float) -> Link:
        connection = None if self._is_legacy else await self._further_connection()
        if connection is None and self._is_legacy:  # as far as is known; each session connects for itself
            connection = await open_connection(self._settings)
        if connection is None:
            return await min(self._hubs, key=_cost).open(timeout_s, capacity_wait_s)
        self._is_legacy = connection.subprotocol != V1
        if self._is_legacy:
            return LegacyLink(connection)
        hub = Hub(connection, self, self._settings)
        self._hubs.append(hub)
        self._width = _worker_count(connection)
        return await hub.open(timeout_s, capacity_wait_s)

    async def _further_connection(self) -> Connection | None:
        """Connect, unless there are connections enough to share or each session has its own.

        Of calls that come together the first one connects; where it fails, the others need not try again. What there is
        already is shared then: a server of several workers may have lost one of them. Whoever waits for the lock sees
        what happens from its release to the next wait.
        """
        failure = self._failure
        async with self._connecting:
            self._hubs = [hub for hub in self._hubs if hub.lives]
            if self._is_legacy or len(self._hubs) >= self._width:
                return None
            if self._failure is failure:
                try:
                    return await open_connection(self._settings)
                except OpenEnvError as error:
                    self._failure = copy(error)
                    if not self._hubs:
                        raise
            elif self._failure is not None and not self._hubs:
                raise copy(self._failure)
            return None


# Neither a loop nor a connection is kept alive by being in here.
_HubsOfServers: TypeAlias = WeakValueDictionary[ConnectionSettings, Hubs]
_hubs_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _HubsOfServers] = WeakKeyDictionary()


async def open_link(settings: ConnectionSettings, timeout_s: float | None, capacity_wait_s: float = 0.0) -> Link:
    """Open a session with a server, sharing a connection with others of this loop where the server has v1.

    Args:
        settings: Where to connect to, and how.
        timeout_s: Seconds that the server may take for it once there is a connection; ``None`` for no limit.
        capacity_wait_s: Seconds to wait in line before that where every place is taken; on v1 only.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
        ConnectionLostError: The connection went meanwhile.
        InvalidAnswerError: The server sent something that is no answer.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    hubs_of_server = _hubs_of_loop.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    hubs = hubs_of_server.get(settings)
    if hubs is None:
        hubs = hubs_of_server[settings] = Hubs(settings)
    return await hubs.link(timeout_s, capacity_wait_s)


if hasattr(os, "register_at_fork"):  # a child may run a loop of its parent's making, whose connections are not its own
    os.register_at_fork(after_in_child=_hubs_of_loop.clear)


def _worker_count(connection: Connection) -> int:
    assert connection.response is not None
    headers = connection.response.headers.get_all(WORKERS_HEADER)
    return int(headers[0]) if len(headers) == 1 and _WORKERS.fullmatch(headers[0]) else 1


def _cost(hub: Hub) -> tuple[bool, int]:
    """Say how ill a connection serves for one session more: one that is lost worst, else the fuller the worse."""
    return not hub.connection.is_open, len(hub)
