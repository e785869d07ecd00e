"""Application of an environment: build it, or serve it at once."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

from fastapi import APIRouter, FastAPI
from fastapi.params import Depends
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from openenv._extras import install_command
from openenv.core.addresses import url_of
from openenv.core.env_server.access.clients import ClientLimits
from openenv.core.env_server.access.guard import protect
from openenv.core.env_server.access.policy import AccessPolicy, needs_new_token, new_token
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.history import Journal
from openenv.core.env_server.http.errors import BodyLimit, add_error_handlers, guarded, refusals
from openenv.core.env_server.http.forwarded_prefix import ForwardedPrefix
from openenv.core.env_server.http.route_order import PUBLIC_PATHS, AuthorsRoutesFirst
from openenv.core.env_server.http.routes import HTTPTransport
from openenv.core.env_server.http.tasks import TaskRoutes
from openenv.core.env_server.isolation.agent_code import isolating_code
from openenv.core.env_server.live.routes import LiveRoutes
from openenv.core.env_server.logs import LogFormat, follow_variables
from openenv.core.env_server.mcp.agent import Served
from openenv.core.env_server.mcp.endpoint import ANSWERS, CALL, END, NO_SESSION, McpEndpoint
from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.operations.routes import Operations
from openenv.core.env_server.ors.routes import OrsTransport
from openenv.core.env_server.pages import docs
from openenv.core.env_server.pages.start import StartPage, enables_web
from openenv.core.env_server.serving import DEFAULT_PORT, RunOptions
from openenv.core.env_server.serving import listen as listen
from openenv.core.env_server.serving import run_app as run_app
from openenv.core.env_server.serving import run_workers as run_workers
from openenv.core.env_server.serving import server_main as server_main
from openenv.core.env_server.sessions.about import About
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.settings import SETTINGS, UNSET, ServerConfig, ServerSettings, check_mode
from openenv.core.env_server.tls import TLS
from openenv.core.env_server.traces import TraceRecorder
from openenv.core.env_server.web import page
from openenv.core.env_server.web.views import static_renderer, static_view_routes
from openenv.core.env_server.websocket.endpoint import WebSocketTransport
from openenv.core.env_server.websocket.mcp import McpSocketTransport
from openenv.core.environment_types import EnvironmentTypes, environment_types
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.core.import_guard import refuse_while_importing
from openenv.core.wire.actions import action_model, is_object
from openenv.core.wire.types import (
    ConcurrencyConfig,
    EnvironmentMetadata,
    ServerCapacityStatus,
    ServerMode,
    SessionInfo,
    State,
    dataclass_advice,
)

if TYPE_CHECKING:
    from openenv.core.env_server.web.custom_tab import CustomTab
    from openenv.core.env_server.web.interface import WebInterfaceManager

logger = logging.getLogger(__name__)

ActionClass: TypeAlias = type[BaseModel] | UnionType | None
"""Class of actions, union of such classes, or ``None`` for the type that the environment's class declares."""

_OPEN_PAGES = docs.PUBLIC_PATHS | page.PUBLIC_PATHS
SERVED_SESSIONS = 64
"""Sessions at once of a class that supports several and sets no default, where no program builds the application."""
_SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The server's token. Requests from the server's own machine need none.",
    }
}


class EnvironmentApp(FastAPI):
    """FastAPI application of one environment, whose pages load nothing from other sites.

    Args:
        about: Description of the environment.
    """

    def __init__(self, about: EnvironmentMetadata) -> None:
        super().__init__(
            title=about.name,
            description=about.description,
            version=about.version or "1.0.0",
            docs_url=None,
            redoc_url=None,
        )
        self.router.routes.extend(docs.docs_routes())
        self.router.lifespan_context = cast("Any", _ServerLifespan(self.router.lifespan_context))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; or serve for the application's lifespan, also where its author has set another one."""
        own = self.router.lifespan_context
        if scope["type"] == "lifespan" and not isinstance(own, _ServerLifespan):
            self.router.lifespan_context = cast("Any", _ServerLifespan(own))
        await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, with the token that the API may require."""
        if self.openapi_schema is None:
            described = super().openapi()
            described.setdefault("components", {})["securitySchemes"] = _SECURITY_SCHEMES
            described["security"] = [
                {},
                {"token": []},
            ]  # the token is optional: peers on this machine need none
            self.openapi_schema = described
        return self.openapi_schema


class HTTPEnvServer:
    """Sessions and transports of one environment, to be registered on an application.

    Args:
        env: An environment class, a function or partial that creates environments, or an instance for all sessions.
        action_cls: Class of the actions, or a union of such classes; by default the types that the environment's class
            declares for actions, observations and states.
        observation_cls: Class of the observations.
        max_concurrent_envs: Sessions open at once; by default the value in ``concurrency_config`` or, if the class
            supports several, that of ``MAX_CONCURRENT_ENVS``, else the class's ``DEFAULT_MAX_SESSIONS``, else 1.
        concurrency_config: Sessions and idle timeout together, instead of ``max_concurrent_envs``.
        env_name: Name of the environment; by default that of its class.
        state_cls: Class of the state.
        reset_observation_cls: Class of the observation after a reset, where it differs.
        **settings: See ``ServerSettings``.

    Attributes:
        config: Every setting of the server.

    Raises:
        ConcurrencyConfigurationError: More than one session is configured for a class that supports one.
        ConfigurationError: Both ``max_concurrent_envs`` and ``concurrency_config`` are given, or a setting is out of
            bounds.
        TypeError: ``env`` is neither callable nor an environment, or there is no such setting.
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
        *,
        reset_observation_cls: type[BaseModel] | None = None,
        **settings: Unpack[ServerSettings],
    ) -> None:
        factory = EnvironmentFactory(env)
        self.env_name = env_name or factory.name
        if max_concurrent_envs is None and concurrency_config is None:
            max_concurrent_envs = default_sessions(factory)
        follow_variables()
        config = ServerConfig.of_concurrency(max_concurrent_envs, concurrency_config, settings)
        types = _types_of(factory, config, action_cls, observation_cls, state_cls)
        self.config = config = isolating_code(config, factory, types.action, settings)
        self.concurrency_config = config.concurrency
        self._reset_observation = reset_observation_cls
        self._access = AccessPolicy.of(config)
        self._clients = ClientLimits(config, self._access.tokens)
        self._telemetry = _load_telemetry() if config.telemetry else None
        observer = self._telemetry.Tracing(self.env_name) if self._telemetry else None
        self._env_factory = factory.make  # environments of the public project call it to build routes of their own
        metrics = Metrics()
        self._recorder = TraceRecorder.of(config, self.env_name, metrics)
        self._sessions = SessionManager(
            factory,
            types,
            config,
            config.environments_per_process,
            metrics,
            observer,
            self._recorder,
            self._clients.max_sessions,
            None if self._access.token_uses is None else self._access.token_uses.watch_player,
        )
        self.about = About(self._sessions, self.env_name)
        self._journal = Journal.of(config)
        self._agents: McpEndpoint | None = None
        self._mode: ServerMode | None = None
        self._last: list[BaseRoute] = []  # routes that the public package's servers do not have
        self._limited: list[Depends] = []
        self._web_manager: WebInterfaceManager | None = None
        self._page: page.PageConfig | None = None
        self._custom_tab: CustomTab | None = None

    def register_routes(self, app: FastAPI, mode: ServerMode | str = ServerMode.SIMULATION) -> None:
        """Add the transports to an application, and a guard before all its routes.

        Args:
            app: The application.
            mode: Production serves agents only: no HTTP route resets or steps, and the socket accepts MCP alone.
        """
        mode = check_mode(mode)
        # An application may register the routes in its lifespan, when Starlette has put its middleware together and
        # would refuse more; without that stack it does so once more at the next request.
        app.middleware_stack = None
        app.state.openenv_operations = Operations(self._sessions, self.env_name, self._access.tokens)
        transport = HTTPTransport(self._sessions, self.about, self._clients, self._reset_observation)
        routes = app.router.routes
        before = len(routes)
        _add_routes(app, app.state.openenv_operations.router(mode))
        _add_routes(app, transport.router(mode))
        ors: list[BaseRoute] = []  # they come after others by themselves, but for requests that name a session of ORS
        if mode is ServerMode.SIMULATION:  # here clients choose the task, and when an episode begins and ends
            ors += OrsTransport(self._sessions, self.env_name).routes(transport.limited)
        routes += ors
        _add_routes(app, TaskRoutes(self._sessions, self.env_name).router(transport.limited))
        socket = WebSocketTransport(self._sessions, self._clients, self.config.max_message_bytes, mode, self._journal)
        routes.append(WebSocketRoute("/ws", socket))
        if mode is ServerMode.SIMULATION:  # an agent must not read the episodes of others
            live = LiveRoutes(self._sessions, socket.registry, app.state.openenv_operations)
            _add_routes(app, live.router())
            routes.append(live.socket())
        self._add_agent_routes(app, mode, transport)
        _share(app, server=self, sessions=self._sessions, agents=self._agents)
        own = [route for route in routes[before:] if route not in ors]
        self._last += [route for route in own if getattr(route, "path", "") not in PUBLIC_PATHS]
        add_error_handlers(app, debug=self.config.debug)
        app.add_middleware(AuthorsRoutesFirst, owner=app, last=self._last)
        app.add_middleware(BodyLimit, max_bytes=self.config.max_message_bytes)
        if self._telemetry is not None:
            app.add_middleware(self._telemetry.TraceParent)
        app.add_middleware(ForwardedPrefix)
        open_pages = _OPEN_PAGES if isinstance(app, EnvironmentApp) else frozenset[str]()
        protect(app, replace(self._access, open_pages=open_pages))
        self._mode = mode
        self._limited = transport.limited

    def add_page(self, app: FastAPI, *, plays: bool) -> None:
        """Add the page that people play on and watch.

        Args:
            app: The application.
            plays: Whether people may play, and see the sessions and the episodes on record, which an agent must not.
        """
        traces = self.config.traces if plays else None
        tools = plays and self._sessions.may_have_tools
        # With isolation, an environment's code runs in processes of its own alone.
        is_here = plays and self.config.isolation == "none"
        renderer = static_renderer(self._sessions.factory.environment_class) if is_here else None
        has_traces, has_views = traces is not None, renderer is not None
        self._page = page.PageConfig(
            self.env_name, play=plays, tools=tools, live=plays, traces=has_traces, views=has_views
        )
        routes = page.page_routes(self._page)
        if renderer is not None:
            routes += static_view_routes({self.env_name: renderer}.get)
        if traces is not None:
            # What reads traces builds on the server, so that it is imported by name where it is needed.
            routes += import_module("openenv.viewer.routes").trace_routes(traces, self.env_name)
            routes += import_module("openenv.viewer.html_file.routes").html_file_routes(routes)
        app.router.routes += routes
        self._last += routes

    def add_web_interface(self, app: FastAPI) -> None:
        """Add the routes of the public package's page to an application that has the others; once, and in simulation.

        Args:
            app: The application.
        """
        if self._mode is not ServerMode.SIMULATION or self._web_manager is not None:
            return
        # Few servers have these routes besides the page's own.
        from openenv.core.env_server.web.interface import WebInterfaceManager
        from openenv.core.env_server.web.interface_routes import WebInterfaceRoutes

        metadata = self.about.own.model_copy(update={"name": self.env_name})
        types, source = self._sessions.types, self._sessions.factory.source
        self._web_manager = WebInterfaceManager(
            source, types.action, types.observation, metadata, sessions=self._sessions
        )
        routes = WebInterfaceRoutes(self._web_manager, self.about, self.env_name)
        failing = refusals(401, 403, 409, 429, 500, 503, 504)
        app.router.routes += routes.router(self._limited, failing).routes
        self._mount_custom_tab(app)

    def add_custom_tab(self, app: FastAPI, tab: "CustomTab") -> None:
        """Add the page that a ``gradio_builder`` makes to an application, as soon as that has the web interface.

        Args:
            app: The application.
            tab: The builder, and what to call the page.

        Raises:
            TypeError: The builder returns something other than ``gradio.Blocks``.
        """
        self._custom_tab = tab
        self._mount_custom_tab(app)

    def _mount_custom_tab(self, app: FastAPI) -> None:
        tab, manager = self._custom_tab, self._web_manager
        if tab is None or manager is None or self._page is None:
            return
        from openenv.core.env_server.quick_start import get_quick_start_markdown  # see add_web_interface
        from openenv.core.env_server.web.custom_tab import PATH, mount_custom_tab

        quick_start = get_quick_start_markdown(manager.metadata, manager.action_cls, manager.observation_cls)
        try:
            mount_custom_tab(app, tab, manager, quick_start, debug=self.config.debug)
        except ConfigurationError as error:
            logger.warning("%s The page at /web/ is there all the same.", error)
            return
        self._page.custom = tab.name
        if tab.is_first:
            app.state.openenv_start_page.web = f"{PATH}/"

    def _add_agent_routes(self, app: FastAPI, mode: ServerMode, transport: HTTPTransport) -> None:
        allows_state = mode is ServerMode.SIMULATION
        served = Served(self._sessions, self.env_name, allows_state=allows_state, about=self.about)
        self._agents = McpEndpoint(served, transport.check_rate if transport.limited else None)
        app.router.routes += [
            Route("/mcp", self._agents, methods=["POST"]),
            WebSocketRoute("/mcp", McpSocketTransport(self._sessions, self._clients, self.config.max_message_bytes)),
        ]
        # These are for the OpenAPI document, which has FastAPI's own routes alone; those above and before them answer.
        router = guarded(tags=["Agents"], default_response_class=Response)
        add, agents = router.add_api_route, self._agents
        failing = refusals(400, 404, 413, 429, 500, 503, 504)
        add("/mcp", agents.call, methods=["POST"], responses=ANSWERS | failing, openapi_extra=CALL)
        add("/mcp", agents.end, methods=["DELETE"], responses=refusals(429) | NO_SESSION, openapi_extra=END)
        further: list[BaseRoute] = [Route("/mcp", agents), *router.routes]
        app.router.routes += further
        self._last += further

    def show_errors(self) -> None:
        """Include where an environment raised in errors to clients, as with ``debug``; for trusted clients."""
        self._sessions.show_errors()

    def prepare(self) -> None:
        """Check the server's journal and traces before clients connect, and create them if they do not exist. Blocks.

        Raises:
            ConfigurationError: The journal or the traces can't be opened, are something else, or of another version.
        """
        if self._journal is not None:
            self._journal.prepare()
        if self._recorder is not None:
            self._recorder.prepare()

    async def start(self) -> None:
        """Prepare for the first session, if that takes long; this package's applications call it at startup.

        Raises:
            ConfigurationError: The journal or the traces can't be used, or the processes for the environments can't
                import them.
        """
        if self._journal is not None or self._recorder is not None:
            await asyncio.to_thread(self.prepare)
        if self._journal is not None:
            self._journal.reopen()
        if self._recorder is not None:
            self._recorder.start(self.about.own.version)
        await self._sessions.start()

    async def close(self) -> None:
        """Close every session. Their journal stays: a restarted server can rebuild them."""
        if self._journal is not None:
            await self._journal.close()
        if self._agents is not None:
            await self._agents.close()
        await self._sessions.close_all()
        if self._recorder is not None:
            await self._recorder.close()

    def get_capacity_status(self) -> ServerCapacityStatus:
        """Return the number of sessions and the limit, of all workers together."""
        return self._sessions.capacity_status()

    def get_session_info(self, session_id: str) -> SessionInfo | None:
        """Return the description of a session of this process; ``None`` for an unknown id."""
        return next((session.info() for session in self._sessions if session.id == session_id), None)

    @property
    def active_sessions(self) -> int:
        """Sessions open now, in all workers together."""
        return self._sessions.capacity_status().active_sessions

    @property
    def max_concurrent_envs(self) -> int:
        """Sessions that may be open at once."""
        return self._sessions.limits.max_sessions

    @property
    def is_concurrency_safe(self) -> bool:
        """Whether the environment's class declares that its instances are independent."""
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
    reset_observation_cls: type[BaseModel] | None = None,
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
        mode: ``simulation`` or ``production``; by default the value of ``OPENENV_MODE``, else simulation.
        reset_observation_cls: Class of the observation after a reset, where it differs.
        **settings: See ``ServerSettings``.

    Raises:
        ConfigurationError: The mode is unknown, or the settings contradict each other.
    """
    server = HTTPEnvServer(
        env,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        concurrency_config,
        env_name,
        state_cls,
        reset_observation_cls=reset_observation_cls,
        **settings,
    )
    app = EnvironmentApp(server.about.own)
    mode = check_mode(server.config.mode if mode is None else mode)
    server.register_routes(app, mode)
    server.add_page(app, plays=mode is ServerMode.SIMULATION)
    if enables_web():
        server.add_web_interface(app)
    app.state.openenv_start_page = StartPage(server.about, app.router.default)
    app.router.default = app.state.openenv_start_page
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
    reset_observation_cls: type[BaseModel] | None = None,
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
        gradio_builder: Makes a page with Gradio, at ``/web/custom/``, where Gradio is installed and the web interface
            is on: ``builder(web_manager, action_fields, metadata, is_chat_env, title, quick_start_md)``.
        custom_tab_name: Name of that page.
        custom_tab_primary: Whether the server's address leads to that page.
        show_default_tab: ``False`` does the same; the page at ``/web/`` stays.
        title_override: Title of the start page and of the API's description; by default the environment's name.
        state_cls: Class of the state.
        mode: ``simulation`` or ``production``; by default the value of ``OPENENV_MODE``, else simulation.
        reset_observation_cls: Class of the observation after a reset, where it differs.
        **settings: See ``ServerSettings``.
    """
    app = create_fastapi_app(
        env,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        concurrency_config,
        env_name,
        state_cls,
        mode=mode,
        reset_observation_cls=reset_observation_cls,
        **settings,
    )
    if title_override:
        app.title = app.state.openenv_start_page.title = title_override
    if gradio_builder is not None:
        from openenv.core.env_server.web.custom_tab import CustomTab

        is_first = custom_tab_primary or not show_default_tab
        app.state.openenv_server.add_custom_tab(
            app, CustomTab(gradio_builder, custom_tab_name, title_override, is_first)
        )
    return app


def create_web_interface_app(
    env: Any,
    action_cls: ActionClass = None,
    observation_cls: type[BaseModel] | None = None,
    *args: Any,
    **kwargs: Any,
) -> FastAPI:
    """Build the application that serves an environment, whose address leads to the page at ``/web/``.

    It has the routes of the public package's page, too, which play one session that all their callers share:
    ``/web/metadata``, ``/web/reset``, ``/web/step``, ``/web/state`` and the socket ``/ws/ui``.

    Args:
        env: See ``HTTPEnvServer``; often an instance.
        action_cls: Class of the actions.
        observation_cls: Class of the observations.
        *args: As for ``create_app``.
        **kwargs: As for ``create_app``.
    """
    app = create_app(env, action_cls, observation_cls, *args, **kwargs)
    app.state.openenv_start_page.leads_to_web = True
    app.state.openenv_server.add_web_interface(app)
    return app


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
    log_level: str | None = None,
    log_format: LogFormat | None = None,
    tls: TLS | None = None,
    reset_observation_cls: type[BaseModel] | None = None,
    **settings: Unpack[ServerSettings],
) -> None:
    """Serve an environment until the process gets a signal to end.

    Args:
        environment_class: The environment's class, a factory or an instance.
        host: Address to listen on. The default is reachable from this machine only; with another address, peers from
            other machines need a token, which is made and printed once if none is given.
        port: Port to listen on; by default the value of ``PORT``, else 8000.
        action_cls: Class of the actions; by default declared by the environment's class, as are the next two.
        observation_cls: Class of the observations.
        state_cls: Class of the state.
        max_concurrent_envs: Sessions open at once; by default as for ``HTTPEnvServer``, with 64 in place of 1 for a
            class that supports several.
        workers: Processes that serve the port together; with more than one, the program must start the server under
            ``if __name__ == "__main__":``, because each of them imports it.
        log_level: Least severe log message that is shown; by default ``OPENENV_LOG_LEVEL``, or ``warning``.
        log_format: How to write the log, see ``logs.log_config``; by default ``OPENENV_LOG_FORMAT``.
        tls: The certificate to serve ``https`` and ``wss`` with; by default neither is.
        reset_observation_cls: Class of the observation after a reset, where it differs.
        **settings: See ``ServerSettings``.

    Raises:
        ConfigurationError: Neither the class nor the arguments declare the types of actions and observations, or
            workers can't import the class.
        ProviderError: A worker could not start.

    Example:
        >>> serve(environment_class=CatchEnvironment, port=8001)  # doctest: +SKIP
    """
    config = ServerConfig.read(settings, max_sessions=max_concurrent_envs)
    factory = EnvironmentFactory(environment_class)
    cls = _class_of(factory, config)
    if action_cls is None or observation_cls is None or state_cls is None:
        found = environment_types(cls)
        action_cls, observation_cls = action_cls or found.action, observation_cls or found.observation
        state_cls = state_cls or found.state
    if max_concurrent_envs is None:
        max_concurrent_envs = default_sessions(factory, SERVED_SESSIONS)
    made_token = new_token() if needs_new_token(host, config) else None
    if made_token is not None:
        settings["token"] = made_token
    make_app = partial(
        create_fastapi_app,
        environment_class,
        action_cls,
        observation_cls,
        max_concurrent_envs,
        state_cls=state_cls,
        reset_observation_cls=reset_observation_cls,
        **settings,
    )
    if port is None:
        port = int(os.environ.get("PORT", DEFAULT_PORT))
    refuse_while_importing()
    options: RunOptions = {"log_level": log_level, "log_format": log_format, "tls": tls}
    with listen(host, port) as listener:
        if workers > 1:
            _announce(cls.__name__, listener, tls, made_token, config)
            run_workers(make_app, workers, listener, **options)
            return
        app = make_app()
        app.state.openenv_server.prepare()
        _announce(cls.__name__, listener, tls, made_token, config)
        run_app(app, listener=listener, **options)


def default_sessions(factory: EnvironmentFactory, otherwise: int = 1) -> int:
    """Return the number of sessions of a server whose program sets none.

    Args:
        factory: The factory of the environments.
        otherwise: The number for a class that supports several sessions, if neither the variable nor the class's
            ``DEFAULT_MAX_SESSIONS`` sets it.

    Returns:
        The number; 1 for a class that is not known, or supports no more, whatever the variable says.

    Raises:
        ConfigurationError: The variable is no whole number.
    """
    setting = SETTINGS["max_sessions"]
    limit = setting.read_variable()
    if factory.supports_many:
        own = getattr(factory.environment_class, "DEFAULT_MAX_SESSIONS", None) or otherwise
        return int(own if limit is UNSET else setting.kind.check(setting.variable, limit))
    if limit not in (UNSET, 1):
        logger.warning(
            "%s=%s is not used: %s does not declare SUPPORTS_CONCURRENT_SESSIONS = True.",
            setting.variable,
            limit,
            factory.name,
        )
    return 1


def _announce(
    name: str, listener: socket.socket, tls: TLS | None, made_token: str | None, config: ServerConfig
) -> None:
    """Print the server's address; clients that connect before it is ready wait."""
    host, port = listener.getsockname()[:2]
    sys.stdout.write(f"Serving {name} at {url_of(host, port, https=tls is not None)}. Ctrl-C ends it.\n")
    if made_token is not None:
        who = "Other machines need" if config.trusts_this_machine else "All clients need"
        sys.stdout.write(f"{who} this token, which is not shown again: {made_token}\n")
    sys.stdout.flush()


class _ServerLifespan:
    """Lifespan of an application: its server starts before what the author does at startup, and closes after it.

    Args:
        inner: The author's lifespan, or FastAPI's, which calls the handlers of the events.
    """

    def __init__(self, inner: Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]) -> None:
        self._inner = inner

    @asynccontextmanager
    async def __call__(self, app: FastAPI) -> AsyncIterator[Mapping[str, Any] | None]:
        """Serve until the application ends. Within another one, such as an author's that calls this, do no more."""
        state = app.state
        if getattr(state, "openenv_serves", False):
            async with self._inner(app) as shared:
                yield shared
            return
        state.openenv_serves = True
        try:
            try:
                await state.openenv_server.start()
            except OpenEnvError as error:
                logger.error("the server can't start: %s", error)
                raise
            async with self._inner(app) as shared:
                yield shared
        finally:
            state.openenv_serves = False
            await state.openenv_server.close()


def _add_routes(app: FastAPI, router: APIRouter) -> None:
    """Add the routes of a router to an application, with the dependencies that its author gave it."""
    if app.router.dependencies:
        app.include_router(router)
    else:  # one by one, since include_router lists a router and not its routes in app.routes
        app.router.routes += router.routes


def _share(app: FastAPI, **parts: Any) -> None:
    """Set parts of the server in an application's state: under names of this package, and under short ones if free."""
    for name, part in parts.items():
        setattr(app.state, f"openenv_{name}", part)
        if not hasattr(app.state, name):
            setattr(app.state, name, part)


def _load_telemetry() -> ModuleType:
    """Import the tracing module, which few servers need."""
    try:
        return import_module("openenv.core.env_server.operations.tracing")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"Telemetry needs OpenTelemetry, but there is no {error.name}: {install_command('telemetry')}."
        ) from error


def _types_of(
    factory: EnvironmentFactory,
    config: ServerConfig,
    action_cls: ActionClass,
    observation_cls: type[BaseModel] | None,
    state_cls: type[BaseModel],
) -> EnvironmentTypes:
    """Return the given classes, completed by those that the environment's class declares."""
    if action_cls is None or observation_cls is None:
        found = environment_types(_class_of(factory, config))
        action_cls, observation_cls = action_cls or found.action, observation_cls or found.observation
        state_cls = found.state if state_cls is State else state_cls
    for advice in filter(None, map(dataclass_advice, (action_cls, observation_cls))):
        raise ConfigurationError(advice)
    action = action_model(action_cls)
    if action is None:
        raise ConfigurationError(f"Expected a pydantic model, or a union of such, as the actions' class: {action_cls}.")
    if not is_object(action):
        raise ConfigurationError(
            f"Expected actions that are objects in JSON, got {action.__name__}. Give them a field, as in "
            "`class Move(Action): to: int`."
        )
    return EnvironmentTypes(action, observation_cls, state_cls)


def _class_of(factory: EnvironmentFactory, config: ServerConfig) -> type:
    """Return the class of the environments; an instance is created for it only if this process may run environments."""
    if factory.environment_class is None and config.environments_per_process is not None:
        raise ConfigurationError(
            f'isolation="process" makes no environment in the server, so {factory.name} has to say what it makes; '
            f"annotate it, as in `def {factory.name}() -> MyEnvironment`."
        )
    return factory.learn_class()
