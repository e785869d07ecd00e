"""Put an environment on the wire: build the application, or serve it at once."""

import logging
import logging.config
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType, UnionType
from typing import Any, TypeAlias, TypedDict, Unpack

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.routing import Route, WebSocketRoute

from openenv.core.addresses import url_of
from openenv.core.env_server.about import About
from openenv.core.env_server.action_unions import action_model
from openenv.core.env_server.drain import DrainingServer, longest_frame, sessions_of
from openenv.core.env_server.environment_types import EnvironmentFactory, EnvironmentTypes, environment_types
from openenv.core.env_server.http import BodyLimit, HTTPTransport, add_error_handlers, refusals
from openenv.core.env_server.http_connections import HTTP
from openenv.core.env_server.importable import Importable, refuse_while_importing
from openenv.core.env_server.journal import Journal
from openenv.core.env_server.limits import Limits
from openenv.core.env_server.logs import LogFormat, log_config
from openenv.core.env_server.mcp.agent import Served
from openenv.core.env_server.mcp.endpoint import McpEndpoint
from openenv.core.env_server.operations import Operations
from openenv.core.env_server.ors.routes import OrsTransport
from openenv.core.env_server.pages.docs import PUBLIC_PATHS, docs_routes
from openenv.core.env_server.pages.start import StartPage
from openenv.core.env_server.security import Access, WayIn, needs_new_token, new_token, protect
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.settings import (
    ServerSettings,
    checked_mode,
    concurrency,
    debugs,
    journal_place,
    limits_of,
    sessions_per_process,
    wants_telemetry,
)
from openenv.core.env_server.sockets import SOCKETS
from openenv.core.env_server.task_routes import TaskRoutes
from openenv.core.env_server.tls import TLS
from openenv.core.env_server.types import (
    ConcurrencyConfig,
    EnvironmentMetadata,
    ServerCapacityStatus,
    ServerMode,
    SessionInfo,
    State,
)
from openenv.core.env_server.workers.supervisor import Supervisor, run_supervisor
from openenv.core.env_server.ws import WebSocketTransport
from openenv.core.env_server.ws_mcp import McpSocketTransport
from openenv.core.exceptions import ConfigurationError

logger = logging.getLogger(__name__)

ActionClass: TypeAlias = type[BaseModel] | UnionType | None
"""A class of actions, a union of such, or what the environment's class says."""

DEFAULT_PORT = 8000
# Sessions that ``serve`` grants to a class whose instances are independent.
_DEFAULT_SESSIONS = 64
_GRACEFUL_SHUTDOWN_S = 5
# What a worker may need to end in order: that, the environments' time to close, and a second.
_WORKERS_GRACE_S = 11.0
_BACKLOG = 2048
_SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The server's token. Requests from the server's own machine need none.",
    }
}


def _nothing_to_announce(_way_in: WayIn) -> None:
    """What a server without a command line says once it is ready."""


class EnvironmentApp(FastAPI):
    """The application of one environment, with pages that describe its API and load nothing from elsewhere.

    Args:
        about: What the environment is.
    """

    def __init__(self, about: EnvironmentMetadata) -> None:
        super().__init__(
            title=about.name,
            description=about.description,
            version=about.version or "1.0.0",
            docs_url=None,
            redoc_url=None,
            lifespan=_lifespan,
        )
        self.router.routes.extend(docs_routes())

    def openapi(self) -> dict[str, Any]:
        """Describe the API, and the token that it may need."""
        if self.openapi_schema is None:
            described = super().openapi()
            described.setdefault("components", {})["securitySchemes"] = _SECURITY_SCHEMES
            described["security"] = [
                {},
                {"token": []},
            ]  # with it or without: that depends on where a request comes from
            self.openapi_schema = described
        return self.openapi_schema


class HTTPEnvServer:
    """The sessions and transports of one environment, to be registered on an application.

    Args:
        env: An environment class, a function or partial that makes one, or one instance that all sessions share.
        action_cls: Class of the actions, or a union of such; by default what the environment's class says, as are the
            observation's and the state's then.
        observation_cls: Class of the observations.
        max_concurrent_envs: Sessions open at once; 1 if neither this nor ``concurrency_config`` says otherwise.
        concurrency_config: Sessions and idle timeout together, in place of ``max_concurrent_envs``.
        env_name: Name of the environment; by default that of its class.
        state_cls: Class of the state.
        **settings: See ``ServerSettings``.

    Raises:
        ConcurrencyConfigurationError: More than one session is asked of a class that supports one.
        ConfigurationError: Both ``max_concurrent_envs`` and ``concurrency_config`` are given.
        TypeError: ``env`` is neither callable nor an environment.
        pydantic.ValidationError: ``max_concurrent_envs`` is below 1.
    """

    def __init__(
        self,
        env: Any,
        action_cls: ActionClass = None,
        observation_cls: type[BaseModel] | None = None,
        max_concurrent_envs: int | None = None,
        concurrency_config: ConcurrencyConfig | None = None,
        env_name: str | None = None,
        state_cls: type[BaseModel] = State,
        **settings: Unpack[ServerSettings],
    ) -> None:
        unknown = settings.keys() - ServerSettings.__annotations__.keys()
        if unknown:
            known = ", ".join(sorted(ServerSettings.__annotations__))
            raise TypeError(f"Unknown setting: {', '.join(sorted(unknown))}. Beside the parameters there are {known}.")
        factory = EnvironmentFactory(env)
        self.env_name = env_name or factory.name
        self.concurrency_config = concurrency(max_concurrent_envs, concurrency_config)
        limits = limits_of(settings, self.concurrency_config)
        self.max_message_bytes = limits.max_message_bytes
        types = _types_of(factory, settings, action_cls, observation_cls, state_cls)
        self._reset_observation = settings.get("reset_observation_cls")
        self._access = Access.of(settings)
        self._debug = debugs(settings)
        self._telemetry = _load_telemetry() if wants_telemetry(settings) else None
        make_sessions = partial(self._telemetry.TracedSessions, self.env_name) if self._telemetry else Sessions
        self._sessions: Sessions = make_sessions(factory, types, limits, sessions_per_process(settings))
        self._sessions.debug = self._debug
        self.about = About(self._sessions, self.env_name)
        place = journal_place(settings)
        self._journal = None if place is None else Journal.within(limits, place)
        self._agents: McpEndpoint | None = None

    def register_routes(self, app: FastAPI, mode: ServerMode | str = ServerMode.SIMULATION) -> None:
        """Add the transports to an application, and a guard before all that it answers.

        Args:
            app: The application.
            mode: Production serves agents only: no HTTP route drives an episode, and the socket takes MCP messages.
        """
        mode = checked_mode(mode)
        app.state.sessions = self._sessions  # where a worker finds what it has to count together with the others
        app.state.operations = Operations(self._sessions, self.env_name)  # the same
        transport = HTTPTransport(self._sessions, self.about, self._reset_observation)
        app.include_router(app.state.operations.router(mode), responses=refusals(401, 403))
        app.include_router(transport.router(mode), responses=refusals(401, 403))
        if mode is ServerMode.SIMULATION:  # whose clients choose the task, and the episode's beginning and end
            ors = OrsTransport(self._sessions, self.env_name)
            app.include_router(ors.router(transport.limited))
        tasks = TaskRoutes(self._sessions, self.env_name)
        app.include_router(tasks.router(transport.limited), responses=refusals(401, 403))
        socket = WebSocketTransport(self._sessions, self.max_message_bytes, mode, self._journal)
        app.router.routes.append(WebSocketRoute("/ws", socket))
        self._add_agent_routes(app, mode, transport)
        add_error_handlers(app, debug=self._debug)
        app.add_middleware(BodyLimit, max_bytes=self.max_message_bytes)
        if self._telemetry is not None:
            app.add_middleware(self._telemetry.TraceParent)
        open_pages = PUBLIC_PATHS if isinstance(app, EnvironmentApp) else frozenset[str]()
        protect(app, replace(self._access, open_pages=open_pages))

    def _add_agent_routes(self, app: FastAPI, mode: ServerMode, transport: HTTPTransport) -> None:
        allows_state = mode is ServerMode.SIMULATION
        served = Served(self._sessions, self.env_name, allows_state=allows_state, about=self.about)
        self._agents = McpEndpoint(served, transport.check_rate if transport.limited else None)
        app.state.agents = self._agents
        app.router.routes.append(Route("/mcp", self._agents))
        app.router.routes.append(WebSocketRoute("/mcp", McpSocketTransport(self._sessions, self.max_message_bytes)))

    def show_errors(self) -> None:
        """Tell clients from now on where an environment raised, as with ``debug``; for a server without strangers."""
        self._sessions.debug = True

    async def start(self) -> None:
        """Get ready for the first session, where that takes long; an application of ours calls this when it starts.

        Raises:
            ConfigurationError: The environments are to run in processes of their own, which can't import them.
        """
        if self._journal is not None:
            self._journal.reopen()
        await self._sessions.start()

    async def close(self) -> None:
        """Close every session. What a journal has of them stays: a server that is started again can rebuild them."""
        if self._journal is not None:
            await self._journal.close()
        if self._agents is not None:
            await self._agents.close()
        await self._sessions.close_all()

    def get_capacity_status(self) -> ServerCapacityStatus:
        """Count the sessions, of all workers where there are several."""
        return self._sessions.capacity()

    def get_session_info(self, session_id: str) -> SessionInfo | None:
        """Describe a session of this process; ``None`` where there is none of this id."""
        return next((session.info() for session in self._sessions if session.id == session_id), None)

    @property
    def active_sessions(self) -> int:
        """Sessions open now, in all workers where there are several."""
        return self._sessions.capacity().active_sessions

    @property
    def max_concurrent_envs(self) -> int:
        """Sessions that may be open at once."""
        return self._sessions.limits.max_sessions

    @property
    def is_concurrency_safe(self) -> bool:
        """Whether the environment's class says that its instances are independent."""
        return bool(getattr(self._sessions.factory.learn_class(), "SUPPORTS_CONCURRENT_SESSIONS", False))


def create_fastapi_app(
    env: Any,
    action_cls: ActionClass = None,
    observation_cls: type[BaseModel] | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    env_name: str | None = None,
    state_cls: type[BaseModel] = State,
    *,
    mode: ServerMode | str | None = None,
    **settings: Unpack[ServerSettings],
) -> FastAPI:
    """Build the application that serves an environment.

    Args:
        env: See ``HTTPEnvServer``, as for the next six.
        action_cls: Class of the actions.
        observation_cls: Class of the observations.
        max_concurrent_envs: Sessions open at once.
        concurrency_config: Sessions and idle timeout together.
        env_name: Name of the environment.
        state_cls: Class of the state.
        mode: ``simulation`` or ``production``; by default what ``OPENENV_MODE`` says, else simulation.
        **settings: See ``ServerSettings``.

    Raises:
        ConfigurationError: The mode is none of the two, or the settings contradict each other.
    """
    server = HTTPEnvServer(
        env, action_cls, observation_cls, max_concurrent_envs, concurrency_config, env_name, state_cls, **settings
    )
    app = EnvironmentApp(server.about.own)
    app.state.server = server
    server.register_routes(app, checked_mode(mode))
    app.state.start_page = StartPage(server.about, app.router.default)
    app.router.default = app.state.start_page
    return app


def create_app(
    env: Any,
    action_cls: ActionClass = None,
    observation_cls: type[BaseModel] | None = None,
    env_name: str | None = None,
    max_concurrent_envs: int | None = None,
    concurrency_config: ConcurrencyConfig | None = None,
    gradio_builder: Callable[..., Any] | None = None,
    custom_tab_name: str = "Custom",
    custom_tab_primary: bool = False,
    show_default_tab: bool = True,
    title_override: str | None = None,
    state_cls: type[BaseModel] = State,
    *,
    mode: ServerMode | str | None = None,
    **settings: Unpack[ServerSettings],
) -> FastAPI:
    """Build the application that serves an environment, with the public order of parameters.

    Args:
        env: See ``HTTPEnvServer``, as for the next five.
        action_cls: Class of the actions.
        observation_cls: Class of the observations.
        env_name: Name of the environment.
        max_concurrent_envs: Sessions open at once.
        concurrency_config: Sessions and idle timeout together.
        gradio_builder: Accepted for environments written for the public web page; a warning says that it is not used.
        custom_tab_name: As ``gradio_builder``.
        custom_tab_primary: As ``gradio_builder``.
        show_default_tab: As ``gradio_builder``.
        title_override: What the start page and the API's description call the environment; by default its name.
        state_cls: Class of the state.
        mode: ``simulation`` or ``production``; by default what ``OPENENV_MODE`` says, else simulation.
        **settings: See ``ServerSettings``.
    """
    if gradio_builder is not None:
        logger.warning("gradio_builder is not used: this server has no Gradio page. The API is served all the same.")
    app = create_fastapi_app(
        env,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        concurrency_config,
        env_name,
        state_cls,
        mode=mode,
        **settings,
    )
    if title_override:
        app.title = app.state.start_page.title = title_override
    return app


def create_web_interface_app(
    env: Any,
    action_cls: ActionClass = None,
    observation_cls: type[BaseModel] | None = None,
    *args: Any,
    **kwargs: Any,
) -> FastAPI:
    """Build the application that serves an environment; as ``create_app``, under the public package's name for it.

    Args:
        env: See ``HTTPEnvServer``; often an instance.
        action_cls: Class of the actions.
        observation_cls: Class of the observations.
        *args: As for ``create_app``.
        **kwargs: As for ``create_app``.
    """
    return create_app(env, action_cls, observation_cls, *args, **kwargs)


def serve(
    environment_class: Any,
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    action_cls: ActionClass = None,
    observation_cls: type[BaseModel] | None = None,
    state_cls: type[BaseModel] | None = None,
    max_concurrent_envs: int | None = None,
    workers: int = 1,
    log_level: str = "warning",
    log_format: LogFormat | None = None,
    tls: TLS | None = None,
    **settings: Unpack[ServerSettings],
) -> None:
    """Serve an environment until the process is told to end.

    Args:
        environment_class: The environment's class, a factory or an instance.
        host: Address to listen on. The default is reachable from this machine only; on another one, peers from other
            machines need a token, which is made and printed once where none is given.
        port: Port to listen on; by default what ``PORT`` says, else 8000.
        action_cls: Class of the actions; by default read off the environment's class, as are the next two.
        observation_cls: Class of the observations.
        state_cls: Class of the state.
        max_concurrent_envs: Sessions open at once; by default 64 for a class that supports concurrent ones, else 1.
        workers: Processes that serve the port together; with more than one, the program must start the server under
            ``if __name__ == "__main__":``, because each of them imports it.
        log_level: Least severe log message that is shown.
        log_format: How to write the log, see ``logs.log_config``.
        tls: The certificate to serve ``https`` and ``wss`` with; by default neither is.
        **settings: See ``ServerSettings``.

    Raises:
        ConfigurationError: The class does not say what its actions and observations are, and neither do the arguments;
            or it can't be imported by workers.
        ProviderError: A worker could not start.

    Example:
        >>> serve(environment_class=CatchEnvironment, port=8001)  # doctest: +SKIP
    """
    cls = _class_of(EnvironmentFactory(environment_class), settings)
    if action_cls is None or observation_cls is None or state_cls is None:
        found = environment_types(cls)
        action_cls, observation_cls = action_cls or found.action, observation_cls or found.observation
        state_cls = state_cls or found.state
    if max_concurrent_envs is None:
        max_concurrent_envs = _DEFAULT_SESSIONS if getattr(cls, "SUPPORTS_CONCURRENT_SESSIONS", False) else 1
    made_token = needs_new_token(host, settings)
    if made_token:
        settings["token"] = new_token()
    types = (action_cls, observation_cls)
    make_app = partial(
        create_fastapi_app, environment_class, *types, max_concurrent_envs, state_cls=state_cls, **settings
    )
    if port is None:
        port = int(os.environ.get("PORT", DEFAULT_PORT))
    refuse_while_importing()
    looks: Looks = {"log_level": log_level, "log_format": log_format, "tls": tls}
    with listen(host, port) as listener:
        _announce(cls.__name__, listener, tls, settings["token"] if made_token else None)
        if workers == 1:
            run_app(make_app(), listener=listener, **looks)
        else:
            run_workers(make_app, workers, listener, **looks)


class Looks(TypedDict):
    """How a server shows itself, as ``run_app`` and ``run_workers`` take it."""

    log_level: str
    log_format: LogFormat | None
    tls: TLS | None


def _announce(name: str, listener: socket.socket, tls: TLS | None, made_token: str | None) -> None:
    """Say where clients find the environment; those that come before it is ready wait."""
    host, port = listener.getsockname()[:2]
    sys.stdout.write(f"Serving {name} at {url_of(host, port, https=tls is not None)}. Ctrl-C ends it.\n")
    if made_token is not None:
        sys.stdout.write(f"Other machines need this token, which is not shown again: {made_token}\n")
    sys.stdout.flush()


def run_app(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    listener: socket.socket | None = None,
    reload_dirs: list[str] | None = None,
    log_level: str = "warning",
    log_format: LogFormat | None = None,
    tls: TLS | None = None,
) -> None:
    """Run an application until the process is told to end.

    Args:
        app: The application or, with ``reload_dirs``, its import path.
        host: Address to listen on.
        port: Port to listen on.
        listener: A socket that is already bound, in place of host and port.
        reload_dirs: Folders in which a changed file starts the application anew.
        log_level: Least severe log message that is shown.
        log_format: How to write the log, see ``logs.log_config``.
        tls: The certificate to serve ``https`` and ``wss`` with.
    """
    refuse_while_importing()
    settings = {"host": host, "port": port, **uvicorn_settings(log_level, log_format, tls)}
    if reload_dirs:
        uvicorn.run(app, reload=True, reload_dirs=reload_dirs, **settings)
        return
    server = DrainingServer(uvicorn.Config(app, **settings), sessions_of(app))
    with suppress(KeyboardInterrupt):  # as uvicorn.run does
        server.run(sockets=None if listener is None else [listener])


def run_workers(
    make_app: Callable[[], Any],
    count: int,
    listener: socket.socket,
    *,
    log_level: str = "warning",
    log_format: LogFormat | None = None,
    tls: TLS | None = None,
    on_ready: Callable[[WayIn], object] = _nothing_to_announce,
    grace_s: float = _WORKERS_GRACE_S,
) -> None:
    """Run an application in several processes that share one port, until this process is told to end.

    Args:
        make_app: Makes the application; each worker process imports it by name and calls it.
        count: How many workers.
        listener: A socket that listens.
        log_level: Least severe log message that is shown.
        log_format: How to write the log, see ``logs.log_config``.
        tls: The certificate to serve ``https`` and ``wss`` with.
        on_ready: Called once every worker takes clients, with what peers from elsewhere have to show; clients that come
            before wait.
        grace_s: Seconds that the workers get to end in order; then they are killed.

    Raises:
        ConfigurationError: The workers could not import ``make_app``, or there are fewer than one.
        ProviderError: A worker could not start.
    """
    refuse_while_importing()
    if count < 1:
        raise ConfigurationError(f"Expected at least 1 worker, got {count}.")
    importable = Importable.of(make_app, "the environment", needed_for=f"workers={count}", instead="workers=1")
    settings = uvicorn_settings(log_level, log_format, tls)
    logging.config.dictConfig(settings["log_config"])  # as uvicorn does in each worker
    with suppress(KeyboardInterrupt):  # as uvicorn does with one process
        run_supervisor(Supervisor(importable, count, listener, settings, on_ready, grace_s))


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.

    Raises:
        ConfigurationError: The port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]  # what follows repeats the address
        raise ConfigurationError(
            f"Can't listen on {host}:{port}: {reason}. Choose another --port (0 takes a free one) or --host."
        ) from error


def uvicorn_settings(log_level: str, log_format: LogFormat | None, tls: TLS | None) -> dict[str, Any]:
    """Say in uvicorn's words how a server is run.

    Args:
        log_level: Least severe log message that is shown.
        log_format: How to write the log, see ``logs.log_config``.
        tls: The certificate to serve ``https`` and ``wss`` with.
    """
    return {
        **({} if tls is None else tls.uvicorn_settings()),
        "log_level": log_level,
        "log_config": log_config(log_level, log_format),
        "ws_max_size": longest_frame(Limits()),
        "ws": SOCKETS,
        "http": HTTP,
        # Frames are short, and compressing them costs more than sending them.
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": _GRACEFUL_SHUTDOWN_S,
    }


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    try:
        await app.state.server.start()
        yield
    finally:
        await app.state.server.close()


def _load_telemetry() -> ModuleType:
    """Import what few servers need."""
    try:
        return import_module("openenv.core.env_server.telemetry")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f'Telemetry needs OpenTelemetry, but there is no {error.name}: pip install "openenv-core[telemetry]".'
        ) from error


def _types_of(
    factory: EnvironmentFactory,
    settings: ServerSettings,
    action_cls: ActionClass,
    observation_cls: type[BaseModel] | None,
    state_cls: type[BaseModel],
) -> EnvironmentTypes:
    """Complete the classes that were given by what the environment's class says."""
    if action_cls is None or observation_cls is None:
        found = environment_types(_class_of(factory, settings))
        action_cls, observation_cls = action_cls or found.action, observation_cls or found.observation
        state_cls = found.state if state_cls is State else state_cls
    action = action_model(action_cls)
    if action is None:
        raise ConfigurationError(f"Expected a pydantic model, or a union of such, as the actions' class: {action_cls}.")
    return EnvironmentTypes(action, observation_cls, state_cls)


def _class_of(factory: EnvironmentFactory, settings: ServerSettings) -> type:
    """Find the class of the environments, making one only where that may be done in this process."""
    if factory.environment_class is None and sessions_per_process(settings) is not None:
        raise ConfigurationError(
            f'isolation="process" makes no environment in the server, so {factory.name} has to say what it makes; '
            f"annotate it, as in `def {factory.name}() -> MyEnvironment`."
        )
    return factory.learn_class()
