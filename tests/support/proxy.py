"""A TCP proxy between a client and a server that does to connections what networks do to them."""

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar, cast

ResultT = TypeVar("ResultT")

# What makes closing a socket a TCP reset.
_RESET = struct.pack("ii", 1, 0)
_PATIENCE_S = 60.0


class Way(Enum):
    """The two directions of a connection."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


class Proxy:
    """Carries every connection to one server, in a thread of its own, until it is told to do something else.

    Every method may be called from any thread, and what it asks for has happened when it returns::

        with Proxy(server.port) as proxy:
            client = GenericEnvClient(base_url=proxy.url)
            client.reset()
            proxy.cut()                                   # a reset, now
            proxy.cut_after(Way.TO_CLIENT, 100)           # a reset after 100 further bytes that way
            proxy.refuse()                                # new connections are reset at once ...
            proxy.accept()                                # ... and no more
            proxy.pause()                                 # connections stay, and nothing arrives ...
            proxy.go_on()                                 # ... until now

    Args:
        port: Where the server listens, on loopback. It may change, for a server that is started again elsewhere.

    Attributes:
        carried: Bytes carried so far, each way, over all connections.
        accepted: Connections that were made, those included that were refused.
        cuts: Resets by ``cut`` and ``cut_after`` of a connection that there was.
    """

    def __init__(self, port: int) -> None:
        self.server_port = port
        self.carried = dict.fromkeys(Way, 0)
        self.accepted = 0
        self.cuts = 0
        self.paused = False
        self._refuses = False
        self._planned: deque[tuple[Way, int]] = deque()
        self._tunnels: list[_Tunnel] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """Connections that there are now."""
        return len(self._tunnels)

    def cut(self) -> int:
        """Reset every connection, at both ends. Returns how many there were."""
        return self._call(self._cut)

    def cut_server(self) -> None:
        """Reset the server's end of every connection. The clients' stay, and learn nothing."""
        self._call(self._cut_server)

    def cut_after(self, way: Way, count: int) -> None:
        """Reset the connection that carries the byte of this number, counted from now on, after it has carried it.

        Plans are carried out one after another: the bytes for the next one are counted from the last one's cut on.
        """
        self._call(self._planned.append, (way, count))
        if count == 0 and len(self._planned) == 1:
            self.cut()

    @property
    def plans_cut(self) -> bool:
        """Whether a cut is planned that has not been made."""
        return bool(self._planned)

    def pause(self) -> None:
        """Carry nothing, also over new connections, as when a cable was pulled out: nobody is told."""
        self._call(self._set_paused, True)

    def go_on(self) -> None:
        """Carry what was held since ``pause``, and what comes."""
        self._call(self._set_paused, False)

    def refuse(self) -> None:
        """Reset new connections at once. Those that there are stay."""
        self._refuses = True

    def accept(self) -> None:
        """Let new connections be made again."""
        self._refuses = False

    def carry(self, tunnel: "_Tunnel", way: Way, data: bytes) -> None:
        """Pass bytes on, as far as no cut was planned before them."""
        if self._planned and self._planned[0][0] is way:
            remaining = self._planned[0][1] - len(data)
            if remaining <= 0:
                self._planned.popleft()
                data = data[: len(data) + remaining]
                self.carried[way] += len(data)
                tunnel.ends[way].write(data)
                tunnel.reset()
                self.cuts += 1
                return
            self._planned[0] = way, remaining
        self.carried[way] += len(data)
        tunnel.ends[way].write(data)

    def forget(self, tunnel: "_Tunnel") -> None:
        """Learn that a connection has ended."""
        if tunnel in self._tunnels:
            self._tunnels.remove(tunnel)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(
            self._loop.create_server(self._accepted, sock=self._listener), self._loop
        ).result(_PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._call(self._listener.close)
        self.cut()
        self._call(self._loop.stop)
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._finished())
        self._loop.close()

    async def _finished(self) -> None:
        """Let what was begun end."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # in which transports close that were aborted

    def _accepted(self) -> "_End":
        self.accepted += 1
        tunnel = _Tunnel(self)
        if self._refuses:
            tunnel.refused = True
        else:
            self._tunnels.append(tunnel)
        return tunnel.ends[Way.TO_CLIENT]

    def _cut(self) -> int:
        tunnels = list(self._tunnels)
        for tunnel in tunnels:
            tunnel.reset()
        self.cuts += len(tunnels)
        return len(tunnels)

    def _cut_server(self) -> None:
        for tunnel in self._tunnels:
            end = tunnel.ends[Way.TO_SERVER]
            end.detach()
            end.reset()

    def _set_paused(self, paused: bool) -> None:
        self.paused = paused
        for tunnel in self._tunnels:
            tunnel.flow()

    def _call(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Have the proxy's thread do something, and wait for it."""
        done: Future[ResultT] = Future()
        self._loop.call_soon_threadsafe(_settle, done, function, arguments)
        return done.result(_PATIENCE_S)


def _settle(done: "Future[ResultT]", function: Callable[..., ResultT], arguments: tuple[object, ...]) -> None:
    try:
        done.set_result(function(*arguments))
    except BaseException as error:  # noqa: BLE001  # the caller's thread raises it
        done.set_exception(error)


class _Tunnel:
    """One connection of a client with its counterpart to the server.

    Attributes:
        ends: Where bytes go that are carried a way: the sockets of the client and of the server.
        refused: Whether it is to be reset as soon as it is there.
    """

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.refused = False
        self.ends = {Way.TO_CLIENT: _End(self, Way.TO_SERVER), Way.TO_SERVER: _End(self, Way.TO_CLIENT)}

    def made(self, end: "_End") -> None:
        """Learn that one of the two sockets is connected."""
        if self.refused:
            self.reset()
        elif end is self.ends[Way.TO_CLIENT]:
            self._connecting = asyncio.ensure_future(self._connect())
        # Not at once: before Python 3.11.4 a transport that is paused while it is made reads all the same.
        asyncio.get_running_loop().call_soon(self.flow)

    def flow(self) -> None:
        """Read from both sockets, unless nothing is to be carried or there is only one."""
        both = all(end.transport is not None for end in self.ends.values())
        for end in self.ends.values():
            end.read(both and not self.proxy.paused)

    def reset(self) -> None:
        """End both sockets with a TCP reset."""
        self.proxy.forget(self)
        for end in self.ends.values():
            end.reset()

    def close(self) -> None:
        """End both sockets, after what is still to be sent."""
        self.proxy.forget(self)
        for end in self.ends.values():
            if end.transport is not None:
                end.transport.close()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(self._server_end, "127.0.0.1", self.proxy.server_port)
        except OSError:  # there is no server
            self.reset()

    def _server_end(self) -> "_End":
        return self.ends[Way.TO_SERVER]


class _End(asyncio.Protocol):
    """One of a tunnel's two sockets; what comes from it goes the way ``way``."""

    def __init__(self, tunnel: _Tunnel, way: Way) -> None:
        self.tunnel = tunnel
        self.way = way
        self.transport: asyncio.Transport | None = None
        self._was_reset = False
        self._is_detached = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._was_reset:
            self.reset()
        else:
            self.tunnel.made(self)

    def data_received(self, data: bytes) -> None:
        self.tunnel.proxy.carry(self.tunnel, self.way, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_detached:
            return
        if exc is None:
            self.tunnel.close()
        else:
            self.tunnel.reset()

    def detach(self) -> None:
        """Learn no more of the other end: it may go, and this one stays."""
        self._is_detached = True

    def read(self, wanted: bool) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        if not self._was_reset:
            self.transport.write(data)

    def reset(self) -> None:
        self._was_reset = True
        if self.transport is None or self.transport.is_closing():
            return
        own: socket.socket = self.transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
