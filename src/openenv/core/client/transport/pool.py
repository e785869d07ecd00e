"""The connections of an event loop to a server, and how a session is opened on either wire.

The sessions of v1 share a connection, or as many as the server has worker processes. With a fleet there is one for each
of its servers that the fleet has sent this client to.
"""

import asyncio
import os
import re
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from openenv.core.client.transport.connection import (
    Connection,
    Endpoint,
    Placement,
    connect_to_server,
    open_connection,
)
from openenv.core.client.transport.session import ClientSession, LegacySession
from openenv.core.client.transport.shared_connection import SharedConnection
from openenv.core.exceptions import ConnectionFailedError, ConnectionLostError, OpenEnvError, ServerCapacityError
from openenv.core.wire.names import V1, WORKERS_HEADER

_WORKERS = re.compile(r"[1-9]\d{0,3}", re.ASCII)
# A fleet knows of what happens at its servers a moment later: what it says of them may be tried again after a while,
# and is not to be relied on for longer.
_FLEET_LOOKS_AFTER_S = 0.4
_GRANT_S = 5.0
# How often a session is opened with a fleet that has a place by its own account, and whose servers have none.
_MOST_REFUSALS = 5
# Seconds to wait in the queue of one server, before the fleet is requested to name another one with a free slot.
_TURN_IN_LINE_S = 5.0
# How often, and after which pauses, it is seen whether a server's process has ended that takes no connection.
_LOOKS_AT_PROCESS = 10
_LOOKS_AFTER_S = 0.05


@dataclass
class _Grant:
    """What a fleet has said last.

    Attributes:
        shared: The connection to the server that it has chosen.
        left: Number of sessions that may be opened there before the next request to the fleet.
        until_s: How long that holds, by the event loop's time.
    """

    shared: SharedConnection
    left: int
    until_s: float

    def take(self) -> SharedConnection | None:
        """Use a place, if there is one left."""
        if self.left == 0 or not self.shared.connection.is_open or self.shared.connection.loop.time() > self.until_s:
            return None
        self.left -= 1
        return self.shared


class ConnectionPool:
    """The connections of one event loop to one server, or to those of one fleet.

    Args:
        endpoint: Where to connect to, and how.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connecting = asyncio.Lock()
        self._failure: OpenEnvError | None = None
        self._shared: list[SharedConnection] = []
        self._width = 1
        self._is_legacy = False
        self._is_fleet = False
        self._fleet_is_full = False
        self._grant: _Grant | None = None
        self._wanted = 0

    async def open(self, timeout_s: float | None, capacity_wait_s: float) -> ClientSession:
        """Open a session, over a connection that there is or a new one.

        Args:
            timeout_s: Seconds that the server may take for it once there is a connection; ``None`` for no limit.
            capacity_wait_s: Seconds to wait in line before that where every place is taken; on v1 only.

        Raises:
            ConfigurationError: The address or a header is none.
            ConnectionFailedError: There is no server, or it refused.
            ConnectionLostError: The connection went meanwhile.
            InvalidAnswerError: The server sent something that is no answer.
            ServerError: The server opens none; the message says why.
            ServerUnauthorizedError: It asks for a token, or for another one.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + capacity_wait_s
        wait_s = capacity_wait_s
        refusals = 0
        while True:
            try:
                return await self._open_anew(timeout_s, wait_s)
            except ServerCapacityError as error:
                if not self._is_fleet or error.of_client:
                    raise
                refusals += 1
                self._grant = None
                if loop.time() >= deadline_s and (self._fleet_is_full or refusals == _MOST_REFUSALS):
                    raise
            await asyncio.sleep(_FLEET_LOOKS_AFTER_S)
            wait_s = max(0.0, deadline_s - loop.time())

    async def _open_anew(self, timeout_s: float | None, capacity_wait_s: float) -> ClientSession:
        # Each of them may have gone without anybody noticing, and the first new one may reach a server that is ending.
        for _ in range(len(self._shared) + 1):
            with suppress(ConnectionLostError):
                return await self._open_once(timeout_s, capacity_wait_s)
        return await self._open_once(timeout_s, capacity_wait_s)

    async def _open_once(self, timeout_s: float | None, capacity_wait_s: float) -> ClientSession:
        self._wanted += 1
        try:
            further = None if self._is_legacy else await self._further()
        finally:
            self._wanted -= 1
        if further is None and self._is_legacy:  # as far as is known; each session connects for itself
            further = await connect_to_server(self._endpoint)
        if isinstance(further, Connection):
            self._is_legacy = further.subprotocol != V1
            if self._is_legacy:
                return LegacySession(further)
            self._width = _worker_count(further)
            further = self._add(further)
        shared = min(self._shared, key=_cost) if further is None else further
        return await shared.open(
            timeout_s, min(capacity_wait_s, _TURN_IN_LINE_S) if self._is_fleet else capacity_wait_s
        )

    async def _further(self) -> Connection | SharedConnection | None:
        """Connect, or say where to open a session; ``None`` where any connection will do, or each session has its own.

        Of calls that come together the first one connects; where it fails, the others need not try again. What there is
        already is shared then: a server of several workers may have lost one of them. A caller that waits for the lock
        sees what happens from its release to the next wait.
        """
        failure = self._failure
        async with self._connecting:
            self._shared = [shared for shared in self._shared if shared.lives]
            granted = None if self._grant is None else self._grant.take()
            if granted is not None:
                return granted
            if self._is_legacy or (not self._is_fleet and len(self._shared) >= self._width):
                return None
            if self._failure is failure:
                try:
                    return await self._connect()
                except OpenEnvError as error:
                    self._failure = copy(error)
                    if not self._shared:
                        raise
            elif self._failure is not None and not self._shared:
                raise copy(self._failure)
            return None

    async def _connect(self) -> Connection | SharedConnection:
        """Connect; with a fleet, to where it says, unless there is a connection already."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._endpoint.connect_timeout_s
        while True:
            connected = await open_connection(self._endpoint, sessions=self._wanted)
            self._is_fleet = isinstance(connected, Placement)
            if isinstance(connected, Connection):
                return connected
            try:
                return await self._placed(connected)
            except ConnectionFailedError:  # that server has just ended
                if loop.time() > deadline_s:
                    raise
                await asyncio.sleep(_FLEET_LOOKS_AFTER_S)

    async def _placed(self, placement: Placement) -> SharedConnection:
        """Use a place that a fleet has granted."""
        pool = (
            shared
            for shared in self._shared
            if shared.connection.is_open and shared.connection.endpoint.url == placement.url
        )
        shared = next(pool, None)
        if shared is None:
            shared = self._add(await connect_to_server(replace(self._endpoint, url=placement.url)))
        self._fleet_is_full = placement.sessions == 0
        # Where there is no place, all who want one wait in line there.
        granted = self._wanted if self._fleet_is_full else placement.sessions
        self._grant = _Grant(shared, granted - 1, shared.connection.loop.time() + _GRANT_S)
        return shared

    def _add(self, connection: Connection) -> SharedConnection:
        shared = SharedConnection(connection, self, self._endpoint)
        self._shared.append(shared)
        return shared


# Neither a loop nor a connection is kept alive by being in here.
_PoolsOfServers: TypeAlias = WeakValueDictionary[Endpoint, ConnectionPool]
_pools_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _PoolsOfServers] = WeakKeyDictionary()


async def open_session(endpoint: Endpoint, timeout_s: float | None, capacity_wait_s: float = 0.0) -> ClientSession:
    """Open a session with a server, sharing a connection with others of this loop where the server has v1.

    Args:
        endpoint: Where to connect to, and how.
        timeout_s: Seconds that the server may take for it once there is a connection; ``None`` for no limit.
        capacity_wait_s: Seconds to wait in line before that where every place is taken; on v1 only.

    Raises:
        ConfigurationError: The address or a header is none.
        ConnectionFailedError: There is no server, or it refused.
        ConnectionLostError: The connection went meanwhile.
        InvalidAnswerError: The server sent something that is no answer.
        ServerEndedError: The server was started by this process, and has ended.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    pools_of_server = _pools_of_loop.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    pool = pools_of_server.get(endpoint)
    if pool is None:
        pool = pools_of_server[endpoint] = ConnectionPool(endpoint)
    try:
        return await pool.open(timeout_s, capacity_wait_s)
    except (ConnectionFailedError, ConnectionLostError):
        await _check_server(endpoint)
        raise


async def _check_server(endpoint: Endpoint) -> None:
    """Raise how the server's process has ended, if it has; its sockets go a moment before."""
    if endpoint.check_server is None:
        return
    for _ in range(_LOOKS_AT_PROCESS):
        endpoint.check_server()
        await asyncio.sleep(_LOOKS_AFTER_S)


if hasattr(os, "register_at_fork"):  # a child may run a loop of its parent's making, whose connections are not its own
    os.register_at_fork(after_in_child=_pools_of_loop.clear)


def _worker_count(connection: Connection) -> int:
    assert connection.response is not None
    headers = connection.response.headers.get_all(WORKERS_HEADER)
    return int(headers[0]) if len(headers) == 1 and _WORKERS.fullmatch(headers[0]) else 1


def _cost(shared: SharedConnection) -> tuple[bool, int]:
    """Say how ill a connection serves for one session more: one that is lost worst, else the fuller the worse."""
    return not shared.connection.is_open, len(shared)
