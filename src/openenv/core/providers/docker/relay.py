"""The way to a server in a container that has no network: through the engine, into the container.

A container with Docker's network ``none`` has a loopback interface and nothing else, so no port of it can be published.
(An ``internal`` network is no alternative: its ports aren't published either, and from inside it the services of this
machine can still be reached.) For each connection to a port of 127.0.0.1 here, a few lines of Python are run in the
container as ``docker exec`` does, and what comes on one side is sent on the other.
"""

import logging
import struct
from contextlib import suppress
from socket import SHUT_WR, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

from openenv.core.providers.docker.engine import APIError, DockerClient, reason

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_CHUNK_BYTES = 64 * 1024
_QUIET_TIMEOUT_S = 5.0
_LOOK_S = 0.2  # how often it looks whether it is to end
# Before each piece of output the engine writes which stream it is of, three zeros, and its length.
_PIECE = struct.Struct(">BxxxI")
_STDOUT = 1
_CANT_RUN = (126, 127)

# Runs in the image's own Python, whichever that is. It waits for the server, which may still be starting. Each
# direction has a thread of its own: a server that first writes must be read from while it is sent more.
_INSIDE = """
import _thread, os, socket, sys, time
for attempt in range(100):
    try:
        server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        break
    except OSError:
        time.sleep(0.02)
else:
    sys.exit("nothing listens on port " + sys.argv[1])
def bring():
    try:
        while True:
            data = os.read(0, 65536)
            if not data:
                break
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)
    except OSError:
        pass
_thread.start_new_thread(bring, ())
while True:
    data = server.recv(65536)
    if not data:
        break
    while data:
        data = data[os.write(1, data):]
"""


class Relay(ThreadingTCPServer):
    """Listens on this machine and connects to a server in a container.

    Args:
        client: The engine.
        container_id: The container, which is running and has ``python3``.
        container_port: The port that its server listens on.
        port: The port to listen on here; 0 takes a free one.

    Raises:
        OSError: The port is taken.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, client: DockerClient, container_id: str, container_port: int, port: int = 0) -> None:
        self.client = client
        self.container_id = container_id
        self.command = ["python3", "-I", "-S", "-c", _INSIDE, str(container_port)]
        self.failure = ""
        """Why the last connection could not be made; empty as long as they can."""
        self._connections: list[Thread] = []
        super().__init__((HOST, port), _Connection)
        Thread(target=self.serve_forever, args=(_LOOK_S,), name="openenv-relay", daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens, as ``http://127.0.0.1:port``."""
        return f"http://{HOST}:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, which ``wait_until_quiet`` knows of."""
        arguments = (request, client_address)
        thread = Thread(target=self.process_request_thread, args=arguments, name="openenv-relay", daemon=True)
        self._connections = [*(one for one in self._connections if one.is_alive()), thread]
        thread.start()

    def stop_listening(self) -> None:
        """Take no more connections. Those that are open end with the container."""
        self.shutdown()
        self.server_close()

    def wait_until_quiet(self) -> None:
        """Wait, once the container is gone, until no thread uses the engine's client any more."""
        for thread in self._connections:
            thread.join(_QUIET_TIMEOUT_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note it: the connection is closed, which its client sees, and ``failure`` says where no other can be made."""
        logger.debug("a connection to the container %s broke", self.container_id, exc_info=True)


class _Connection(BaseRequestHandler):
    request: socket
    server: Relay

    def handle(self) -> None:
        api = self.server.client.api
        try:
            execution = api.exec_create(self.server.container_id, self.server.command, stdin=True)["Id"]
            stream = api.exec_start(execution, socket=True)
        except APIError as error:  # the container has ended
            self.server.failure = reason(error)
            return
        self.server.failure = ""
        # The SDK wraps the socket where it is not encrypted.
        inside: socket = getattr(stream, "_sock", stream)  # type: ignore[arg-type]
        inside.settimeout(None)
        Thread(target=_send_on, args=(self.request, inside), name="openenv-relay", daemon=True).start()
        try:
            self._receive(inside)
        finally:
            stream.close()
            inside.close()
        if api.exec_inspect(execution)["ExitCode"] in _CANT_RUN:
            self.server.failure = "the image has no python3, by which a container without a network is reached"

    def _receive(self, inside: socket) -> None:
        with inside.makefile("rb") as pieces:
            while header := pieces.read(_PIECE.size):
                kind, length = _PIECE.unpack(header)
                data = pieces.read(length)
                if kind == _STDOUT:
                    self.request.sendall(data)


def _send_on(source: socket, target: socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with suppress(OSError):  # also where the client has gone without a word: the server is to know
        target.shutdown(SHUT_WR)
