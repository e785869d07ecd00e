"""Server of a fleet, in the process that Ray has started for it."""

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine
from concurrent.futures import wait
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

import ray
import uvicorn

from openenv.core.env_server.logs import of_worker
from openenv.core.env_server.mcp.endpoint import McpEndpoint
from openenv.core.env_server.operations.drain import DrainingServer, sessions_of
from openenv.core.env_server.operations.routes import Operations, Report
from openenv.core.env_server.serving import listen, prepare, uvicorn_settings
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.fleet.placement import Load
from openenv.fleet.plan import ServerPlan, name_of

# Calls at once: one of them may wait for a server that hangs.
CALLS_AT_ONCE = 8
_LOOK_EVERY_S = 0.1

ResultT = TypeVar("ResultT")


class StartedReplica(NamedTuple):
    """Server that takes clients.

    Attributes:
        host: Address that it listens on.
        port: Port.
        pid: Its process.
        node: Address of its machine.
        capacity: Sessions that it may hold.
    """

    host: str
    port: int
    pid: int
    node: str
    capacity: int


class Occupancy(NamedTuple):
    """Load of a server: its slots.

    Attributes:
        load: Its load.
        opened: Sessions that it has opened since it began.
    """

    load: Load
    opened: int


class ReplicaServer:
    """Server that runs in a thread beside the one that answers the fleet's calls. An actor of Ray's."""

    def __init__(self, plan: ServerPlan, number: int) -> None:
        self._plan = plan
        self._number = number
        self._server: _ThreadServer
        self._thread: Thread

    def start(self) -> StartedReplica:
        """Serve, and return the address.

        Raises:
            OpenEnvError: The environment can't be served, or its address be listened on.
        """
        os.environ.update(self._plan.variables)
        app = self._plan.make_app()
        sessions = sessions_of(app)
        if sessions is None:
            raise ConfigurationError(f"Expected an application that create_app has made, got {type(app).__name__}.")
        prepare(app)
        sessions.number_ids(self._number)
        operations: Operations = app.state.openenv_operations
        operations.join_workers(self._number)
        node: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        listener = listen(self._plan.host or node, 0)
        config = uvicorn.Config(app, **self._settings())
        self._server = _ThreadServer(config, sessions, operations, app.state.openenv_agents)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [listener]}, name="server", daemon=True)
        self._thread.start()
        self._wait_until_serving(listener)
        host, port = listener.getsockname()[:2]
        return StartedReplica(host, port, os.getpid(), node, sessions.limits.max_sessions)

    def occupancy(self) -> Occupancy | None:
        """Return its load; ``None`` once it has ended. The serving thread answers: it must not hang."""
        return self._call(self._server.occupancy())

    def answer(self, question: Report) -> Report | None:
        """Answer a request for a report, see ``Operations``; ``None`` once it has ended."""
        return self._call(self._server.answer(question))

    def drain(self) -> None:
        """Take no new sessions, let the episodes under way end, and end."""
        self._server.handle_exit(signal.SIGTERM, None)

    def end(self) -> None:
        """End in order, without waiting for episodes. Returns when it has ended."""
        self._server.should_exit = True
        self._thread.join()

    def _call(self, work: Coroutine[Any, Any, ResultT]) -> ResultT | None:
        """Have the thread that serves do something; ``None`` where it has ended, or ends before it comes to that."""
        if not self._thread.is_alive():
            work.close()
            return None
        answer = asyncio.run_coroutine_threadsafe(work, self._server.loop)
        while not answer.done() and self._thread.is_alive():
            wait([answer], _LOOK_EVERY_S)
        return answer.result() if answer.done() and not answer.cancelled() else None

    def _settings(self) -> dict[str, Any]:
        settings = uvicorn_settings(self._plan.log_level, self._plan.log_format, self._plan.tls)
        return {**settings, "log_config": of_worker(settings["log_config"], str(self._number))}

    def _wait_until_serving(self, listener: socket.socket) -> None:
        while not self._server.serving.wait(_LOOK_EVERY_S):
            if not self._thread.is_alive():
                listener.close()
                name = name_of(self._plan.environment)
                raise ProviderError(f"The server of {name} could not start; see what it has logged.")


class _ThreadServer(DrainingServer):
    """Server that reports its start to the thread that started it."""

    def __init__(
        self, config: uvicorn.Config, sessions: SessionManager, operations: Operations, agents: McpEndpoint
    ) -> None:
        super().__init__(config, sessions)
        self.serving = Event()
        self.loop: asyncio.AbstractEventLoop
        self._session_manager = sessions
        self._operations = operations
        self._agents = agents

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and take clients from then on."""
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        if self.started:
            self.serving.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of agents, which can't see that no signal ends this server, and then the server."""
        self._agents.end_streams()
        await super().shutdown(sockets)

    async def occupancy(self) -> Occupancy:
        """Return the load of the server."""
        capacity = self._session_manager.capacity_status()
        opened = self._session_manager.metrics.opened.total()
        return Occupancy(Load(capacity.active_sessions, capacity.max_sessions), opened)

    async def answer(self, question: Report) -> Report:
        """Answer a request for a report."""
        return self._operations.answer(question)
