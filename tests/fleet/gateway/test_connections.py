"""Requests to a fleet's servers, more than one pool of connections takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest

from openenv.fleet.gateway.connections import REQUESTS_OF_A_POOL, SpreadTransport

MANY = 3 * REQUESTS_OF_A_POOL
HANGS_S = 60.0


class Stub:
    """Answers once as many requests are under way as it waits for."""

    def __init__(self) -> None:
        self.connections = 0
        self.waits_for = 1
        self.under_way = 0
        self.full = asyncio.Event()
        self.nearly_full = asyncio.Event()  # when one more is enough

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.under_way += 1
                if self.under_way == self.waits_for - 1:
                    self.nearly_full.set()
                if self.under_way >= self.waits_for:
                    self.full.set()
                await self.full.wait()
                self.under_way -= 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        writer.close()


@pytest.fixture
async def stub() -> AsyncIterator[tuple[Stub, str]]:
    found = Stub()
    async with await asyncio.start_server(found, "127.0.0.1", 0, backlog=256) as server:
        yield found, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    transport = SpreadTransport(verify=False, keep_alive_s=HANGS_S)
    async with httpx.AsyncClient(transport=transport, timeout=HANGS_S) as client:
        yield client


async def test_many_at_once_are_all_under_way(stub: tuple[Stub, str], http: httpx.AsyncClient) -> None:
    server, url = stub
    server.waits_for = MANY
    answers = await asyncio.gather(*[http.get(url) for _ in range(MANY)])
    assert [answer.text for answer in answers] == ["ok"] * MANY
    assert server.connections == MANY


async def test_afterwards_only_the_first_pool_keeps_connections(
    stub: tuple[Stub, str], http: httpx.AsyncClient
) -> None:
    server, url = stub
    server.waits_for = MANY
    await asyncio.gather(*[http.get(url) for _ in range(MANY)])
    for _ in range(2 * REQUESTS_OF_A_POOL):
        assert (await http.get(url)).text == "ok"
    assert server.connections == MANY


async def test_requests_that_are_given_up_leave_room(stub: tuple[Stub, str], http: httpx.AsyncClient) -> None:
    server, url = stub
    server.waits_for = REQUESTS_OF_A_POOL
    given_up = [asyncio.create_task(http.get(url)) for _ in range(REQUESTS_OF_A_POOL - 1)]
    async with asyncio.timeout(HANGS_S):
        await server.nearly_full.wait()
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    server.full.set()
    for _ in range(2):  # on one connection of the first pool, which keeps it
        assert (await http.get(url)).text == "ok"
    assert server.connections == REQUESTS_OF_A_POOL


@pytest.mark.level("socket")
async def test_a_server_that_is_not_there(http: httpx.AsyncClient) -> None:
    for _ in range(2 * REQUESTS_OF_A_POOL):
        with pytest.raises(httpx.ConnectError):
            await http.get("http://127.0.0.1:9/")
