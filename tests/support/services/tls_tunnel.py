"""What cloud services lead connections to a sandbox through: encrypted outside, and as it came inside."""

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path

import trustme
from tests.support.services.cloud_machine import Machine

_CHUNK = 65536


class TlsTunnel:
    """Leads encrypted connections at ``localhost`` to a machine's server, and adds nothing to them.

    Args:
        machine: The machine.
        certificate: What it shows to its clients.
    """

    def __init__(self, machine: Machine, certificate: ssl.SSLContext) -> None:
        self._machine = machine
        self._ended = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        serve = self._serve(listener, certificate)
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(serve,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self, listener: socket.socket, certificate: ssl.SSLContext) -> None:
        server = await asyncio.start_server(self._lead, sock=listener, ssl=certificate)
        await self._ended.wait()
        server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.CancelledError):
            port = await asyncio.to_thread(self._machine.port)
            if port is not None:
                to_read, to_write = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_pump(reader, to_write), _pump(to_read, writer))


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError), contextlib.closing(target):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()


def local_certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a certificate for ``localhost``.

    Returns:
        It, and the file of its authority, for clients to trust.
    """
    authority, file = trustme.CA(), folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(certificate)
    return certificate, file
