"""Connections to the servers of a fleet, spread over several pools of ``httpx``.

A pool looks through all of its connections when a request begins or ends: with 2,000 requests under way at the gateway,
that would be half of the event loop's time.
"""

import ssl
from collections.abc import AsyncIterator

import httpx

REQUESTS_OF_A_POOL = 32
"""Requests under way after which another pool is used."""


class SpreadTransport(httpx.AsyncBaseTransport):
    """Sends each request by the first pool that has few under way. Only the first pool keeps idle connections."""

    def __init__(self, verify: ssl.SSLContext | bool, keep_alive_s: float) -> None:
        self._verify = verify
        self._pools = [_Pool(verify, httpx.Limits(max_connections=None, keepalive_expiry=keep_alive_s))]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        pool = self._free_pool()
        pool.under_way += 1
        try:
            response = await pool.transport.handle_async_request(request)
        except BaseException:
            pool.under_way -= 1
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _CountedStream(response.stream, pool)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools:
            await pool.transport.aclose()

    def _free_pool(self) -> "_Pool":
        for pool in self._pools:
            if pool.under_way < REQUESTS_OF_A_POOL:
                return pool
        self._pools.append(_Pool(self._verify, httpx.Limits(max_connections=None, max_keepalive_connections=0)))
        return self._pools[-1]


class _Pool:
    """A pool of connections.

    Attributes:
        transport: The pool.
        under_way: Number of its requests whose answers have not ended.
    """

    def __init__(self, verify: ssl.SSLContext | bool, limits: httpx.Limits) -> None:
        self.transport = httpx.AsyncHTTPTransport(verify=verify, limits=limits, trust_env=False)
        self.under_way = 0


class _CountedStream(httpx.AsyncByteStream):
    """Body of an answer, whose end is counted in its pool."""

    def __init__(self, body: httpx.AsyncByteStream, pool: _Pool) -> None:
        self._body = body
        self._pool: _Pool | None = pool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Read it."""
        async for part in self._body:
            yield part

    async def aclose(self) -> None:
        """End it."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.under_way -= 1
        await self._body.aclose()
