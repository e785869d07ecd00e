"""A port of this machine behind which is a pod's, for where the cluster's own network can't be reached.

The client library's own way keeps sockets open and is bound to file descriptors below 1024, so the few lines that its
protocol takes are here: a WebSocket for each connection, on whose channel 0 its bytes travel, and on channel 1 what the
cluster could not do.
"""

import asyncio
import logging
import socket
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from openenv.core.exceptions import ProviderError
from openenv.core.providers.kubernetes.cluster import Cluster, ForwardTarget

HOST = "127.0.0.1"
_PROTOCOL = Subprotocol("v4.channel.k8s.io")
_CHUNK = 1 << 16
_CLOSE_S = 1.0
"""How long the cluster may take to say goodbye."""
_DATA = 0
_ERROR = 1
_PORT_BYTES = 2
"""How each channel begins: with its port, which both sides know."""

logger = logging.getLogger(__name__)


class Tunnel:
    """Listens on 127.0.0.1 and carries each connection to a pod through the cluster's API, as ``kubectl`` does.

    It has an event loop of its own, so that nothing else that this process does holds it up.

    Args:
        cluster: Where the pod is.
        pod: The pod's name.
        pod_port: The port there.
        port: The port here; a free one is taken if ``None``.

    Attributes:
        port: The port here.

    Raises:
        ProviderError: The port is taken.
    """

    def __init__(self, cluster: Cluster, pod: str, pod_port: int, port: int | None = None) -> None:
        self._cluster = cluster
        self._pod = pod
        self._pod_port = pod_port
        self._carrying: set[asyncio.Task[None]] = set()
        try:
            self._listener = socket.create_server((HOST, port or 0))
        except OSError as error:
            raise ProviderError(f"Can't listen on {HOST}:{port}: {error.strerror}. Choose another port.") from error
        self.port: int = self._listener.getsockname()[1]
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), name=f"tunnel to {pod}", daemon=True)
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Take no further connections, and cut those that there are. May be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    def cut(self) -> None:
        """Cut the connections that there are; further ones are welcome."""
        self._loop.call_soon_threadsafe(self._cancel)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        async with await asyncio.start_server(self._accept, sock=self._listener):
            self._ready.set()
            await self._closing.wait()
            carrying = list(self._carrying)
            self._cancel()
            # What the loop's end finds unfinished would leave its sockets open.
            await asyncio.gather(*carrying, return_exceptions=True)

    def _cancel(self) -> None:
        for task in self._carrying:
            task.cancel()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(partial(self._ended, writer))

    def _ended(self, writer: StreamWriter, task: asyncio.Task[None]) -> None:
        self._carrying.discard(task)
        writer.transport.abort()  # where it was cut before it had begun, or while it closed

    async def _carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Carry what comes from either side to the other, until one of them ends."""
        try:
            # Credentials may have to be fetched again, which takes a while.
            target = await asyncio.to_thread(self._cluster.forward_target, self._pod, self._pod_port)
            await _exchange(target, reader, writer)
        except (OSError, WebSocketException) as error:
            logger.info("no connection to port %s of the pod %s: %s", self._pod_port, self._pod, error)
        except asyncio.CancelledError:
            writer.transport.abort()  # else it waits until all has been taken that came
            raise
        finally:
            await _close(writer)


async def _exchange(target: ForwardTarget, reader: StreamReader, writer: StreamWriter) -> None:
    there = await _connected(target)
    try:
        await _first_of(_send(reader, there), _receive(there, writer))
        await there.close()
    finally:
        there.transport.abort()  # where it was cut; after a goodbye nothing is left to abort


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _close(writer: StreamWriter) -> None:
    writer.close()
    with suppress(OSError):  # the other side was quicker
        await writer.wait_closed()


def _connected(target: ForwardTarget) -> connect:
    return connect(
        target.url,
        additional_headers=target.headers,
        subprotocols=[_PROTOCOL],
        ssl=target.tls,
        server_hostname=target.server_name if target.tls else None,
        proxy=target.proxy,
        compression=None,
        max_size=None,
        close_timeout=_CLOSE_S,
    )


async def _send(reader: StreamReader, there: ClientConnection) -> None:
    while data := await reader.read(_CHUNK):
        await there.send(bytes([_DATA]) + data)


async def _receive(there: ClientConnection, writer: StreamWriter) -> None:
    begun = set()
    async for frame in there:
        assert isinstance(frame, bytes)
        channel, data = frame[0], frame[1:]
        if channel not in begun:
            begun.add(channel)
            data = data[_PORT_BYTES:]
        if channel == _ERROR and data:
            logger.info("the cluster could not carry on with a connection to a pod: %s", data.decode(errors="replace"))
            return
        if channel == _DATA:
            writer.write(data)
            await writer.drain()
