"""Put an environment on the wire: build the application, or serve it at once."""

import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.routing import WebSocketRoute

from openenv.core.env_server.environment_types import EnvironmentFactory, EnvironmentTypes, environment_types
from openenv.core.env_server.http import BodyLimit, HTTPTransport, add_error_handlers
from openenv.core.env_server.importable import Importable, refuse_while_importing
from openenv.core.env_server.sessions import Limits, Sessions
from openenv.core.env_server.types import ConcurrencyConfig, ServerCapacityStatus, ServerMode, SessionInfo, State
from openenv.core.env_server.workers.supervisor import Supervisor, run_supervisor
from openenv.core.env_server.ws import WebSocketTransport
from openenv.core.exceptions import ConfigurationError

logger = logging.getLogger(__name__)

DEFAULT_PORT = 8000
_MEBIBYTE = 1024 * 1024
DEFAULT_MAX_MESSAGE_MB = 100.0
# A frame that is too long is still read up to this many times the limit, so that its sender can be told and its session
# goes on. A longer one closes the socket.
_OVERSIZE_READ = 3
# Sessions that ``serve`` grants to a class whose instances are independent.
_DEFAULT_SESSIONS = 64
_GRACEFUL_SHUTDOWN_S = 5
# What a worker may need to end in order: that, the environments' time to close, and a second.
_WORKERS_GRACE_S = 11.0
_BACKLOG = 2048


def _nothing_to_announce() -> None:
    """What a server without a command line says once it is ready."""


class ServerSettings(TypedDict, total=False):
    """What can be set by keyword, beside the public parameters, wherever a server is built.

    Attributes:
        reset_observation_cls: Class of the observation after a reset, where it differs.
        reset_timeout_s: Seconds that a reset may take; ``None``, the default, for no limit.
        step_timeout_s: Seconds that a step may take; ``None``, the default, for no limit.
        max_message_size_mb: Longest message that is read, in MiB; 100 by default.
        isolation: ``"process"`` runs the environments in processes of their own, ``"none"`` in the server's; by default
            what ``OPENENV_ISOLATION`` says, else ``"none"``.
        sessions_per_process: With ``isolation="process"``, how many sessions share a process; by default what
            ``OPENENV_SESSIONS_PER_PROCESS`` says, else 1.
    """

    reset_observation_cls: type[BaseModel] | None
    reset_timeout_s: float | None
    step_timeout_s: float | None
    max_message_size_mb: float
    isolation: Literal["none", "process"] | None
    sessions_per_process: int | None


class HTTPEnvServer:
    """The sessions and transports of one environment, to be registered on an application.

    Args:
        env: An environment class, a function or partial that makes one, or one instance that all sessions share.
        action_cls: Class of the actions.
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
        action_cls: type[BaseModel],
        observation_cls: type[BaseModel],
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
        self.concurrency_config = _concurrency(max_concurrent_envs, concurrency_config)
        self.max_message_bytes = _message_bytes(settings.get("max_message_size_mb", DEFAULT_MAX_MESSAGE_MB))
        limits = Limits(
            max_sessions=self.concurrency_config.max_concurrent_envs,
            idle_timeout_s=self.concurrency_config.session_timeout,
            reset_timeout_s=settings.get("reset_timeout_s"),
            step_timeout_s=settings.get("step_timeout_s"),
        )
        types = EnvironmentTypes(action=action_cls, observation=observation_cls, state=state_cls)
        self._reset_observation = settings.get("reset_observation_cls")
        self._sessions = Sessions(factory, types, limits, _sessions_per_process(settings))

    def register_routes(self, app: FastAPI, mode: ServerMode | str = ServerMode.SIMULATION) -> None:
        """Add the transports to an application.

        Args:
            app: The application.
            mode: Production leaves out the HTTP routes that drive an episode.
        """
        app.state.sessions = self._sessions  # where a worker finds what it has to count together with the others
        app.include_router(HTTPTransport(self._sessions, self._reset_observation).router(_mode(mode)))
        app.router.routes.append(WebSocketRoute("/ws", WebSocketTransport(self._sessions, self.max_message_bytes)))
        add_error_handlers(app)
        app.add_middleware(BodyLimit, max_bytes=self.max_message_bytes)

    async def start(self) -> None:
        """Get ready for the first session, where that takes long; an application of ours calls this when it starts.

        Raises:
            ConfigurationError: The environments are to run in processes of their own, which can't import them.
        """
        await self._sessions.start()

    async def close(self) -> None:
        """Close every session."""
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
    action_cls: type[BaseModel],
    observation_cls: type[BaseModel],
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
    app = FastAPI(title="OpenEnv Environment HTTP API", version="1.0.0", lifespan=_lifespan)
    app.state.server = server
    server.register_routes(app, _mode(mode))
    return app


def create_app(
    env: Any,
    action_cls: type[BaseModel],
    observation_cls: type[BaseModel],
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
        title_override: As ``gradio_builder``.
        state_cls: Class of the state.
        mode: ``simulation`` or ``production``; by default what ``OPENENV_MODE`` says, else simulation.
        **settings: See ``ServerSettings``.
    """
    if gradio_builder is not None:
        logger.warning("gradio_builder is not used: this server has no Gradio page. The API is served all the same.")
    return create_fastapi_app(
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


def create_web_interface_app(
    env: Any, action_cls: type[BaseModel], observation_cls: type[BaseModel], *args: Any, **kwargs: Any
) -> FastAPI:
    """Build the application that serves an environment's API; the web page itself is not part of it yet.

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
    action_cls: type[BaseModel] | None = None,
    observation_cls: type[BaseModel] | None = None,
    state_cls: type[BaseModel] | None = None,
    max_concurrent_envs: int | None = None,
    workers: int = 1,
    log_level: str = "warning",
    **settings: Unpack[ServerSettings],
) -> None:
    """Serve an environment until the process is told to end.

    Args:
        environment_class: The environment's class, a factory or an instance.
        host: Address to listen on. The default is reachable from this machine only.
        port: Port to listen on; by default what ``PORT`` says, else 8000.
        action_cls: Class of the actions; by default read off the environment's class, as are the next two.
        observation_cls: Class of the observations.
        state_cls: Class of the state.
        max_concurrent_envs: Sessions open at once; by default 64 for a class that supports concurrent ones, else 1.
        workers: Processes that serve the port together; with more than one, the program must start the server under
            ``if __name__ == "__main__":``, because each of them imports it.
        log_level: Least severe log message that is shown.
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
    types = (action_cls, observation_cls)
    make_app = partial(
        create_fastapi_app, environment_class, *types, max_concurrent_envs, state_cls=state_cls, **settings
    )
    if port is None:
        port = int(os.environ.get("PORT", DEFAULT_PORT))
    if workers == 1:
        run_app(make_app(), host=host, port=port, log_level=log_level)
        return
    refuse_while_importing()
    with listen(host, port) as listener:
        run_workers(make_app, workers, listener, log_level=log_level)


def run_app(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    listener: socket.socket | None = None,
    reload_dirs: list[str] | None = None,
    log_level: str = "warning",
) -> None:
    """Run an application until the process is told to end.

    Args:
        app: The application or, with ``reload_dirs``, its import path.
        host: Address to listen on.
        port: Port to listen on.
        listener: A socket that is already bound, in place of host and port.
        reload_dirs: Folders in which a changed file starts the application anew.
        log_level: Least severe log message that is shown.
    """
    refuse_while_importing()
    settings = {"host": host, "port": port, **_uvicorn_settings(log_level)}
    if listener is not None:
        uvicorn.Server(uvicorn.Config(app, **settings)).run(sockets=[listener])
    else:
        uvicorn.run(app, reload=bool(reload_dirs), reload_dirs=reload_dirs, **settings)


def run_workers(
    make_app: Callable[[], Any],
    count: int,
    listener: socket.socket,
    *,
    log_level: str = "warning",
    on_ready: Callable[[], object] = _nothing_to_announce,
    grace_s: float = _WORKERS_GRACE_S,
) -> None:
    """Run an application in several processes that share one port, until this process is told to end.

    Args:
        make_app: Makes the application; each worker process imports it by name and calls it.
        count: How many workers.
        listener: A socket that listens.
        log_level: Least severe log message that is shown.
        on_ready: Called once every worker takes clients; those that come before wait.
        grace_s: Seconds that the workers get to end in order; then they are killed.

    Raises:
        ConfigurationError: The workers could not import ``make_app``, or there are fewer than one.
        ProviderError: A worker could not start.
    """
    refuse_while_importing()
    if count < 1:
        raise ConfigurationError(f"Expected at least 1 worker, got {count}.")
    importable = Importable.of(make_app, "the environment", needed_for=f"workers={count}", instead="workers=1")
    with suppress(KeyboardInterrupt):  # as uvicorn does with one process
        run_supervisor(Supervisor(importable, count, listener, _uvicorn_settings(log_level), on_ready, grace_s))


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


def _uvicorn_settings(log_level: str) -> dict[str, Any]:
    return {
        "log_level": log_level,
        "ws_max_size": _OVERSIZE_READ * int(DEFAULT_MAX_MESSAGE_MB * _MEBIBYTE),
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


def _concurrency(max_concurrent_envs: int | None, config: ConcurrencyConfig | None) -> ConcurrencyConfig:
    if config is None:
        return ConcurrencyConfig(max_concurrent_envs=1 if max_concurrent_envs is None else max_concurrent_envs)
    if max_concurrent_envs is not None:
        raise ConfigurationError(
            "max_concurrent_envs and concurrency_config both say how many sessions to grant; give one of them."
        )
    return config


def _class_of(factory: EnvironmentFactory, settings: ServerSettings) -> type:
    """Find the class of the environments, making one only where that may be done in this process."""
    if factory.environment_class is None and _sessions_per_process(settings) is not None:
        raise ConfigurationError(
            f'isolation="process" makes no environment in the server, so {factory.name} has to say what it makes; '
            f"annotate it, as in `def {factory.name}() -> MyEnvironment`."
        )
    return factory.learn_class()


def _sessions_per_process(settings: ServerSettings) -> int | None:
    """Read how many sessions are to share a process; ``None`` where all environments run in the server's own."""
    isolation = settings.get("isolation") or os.environ.get("OPENENV_ISOLATION", "none")
    if isolation not in ("none", "process"):
        raise ConfigurationError(f"Expected the isolation (OPENENV_ISOLATION) 'none' or 'process', got {isolation!r}.")
    count = settings.get("sessions_per_process")
    if isolation == "none":
        if count is not None:
            raise ConfigurationError('sessions_per_process says how to share a process; it needs isolation="process".')
        return None
    asked = os.environ.get("OPENENV_SESSIONS_PER_PROCESS", "1") if count is None else str(count)
    if not asked.isdecimal() or int(asked) < 1:
        raise ConfigurationError(
            f"Expected sessions_per_process (OPENENV_SESSIONS_PER_PROCESS) to be a number above 0, got {asked}."
        )
    return int(asked)


def _message_bytes(size_mb: float) -> int:
    if not size_mb > 0:  # NaN included
        raise ConfigurationError(f"Expected max_message_size_mb to be above 0, got {size_mb}.")
    return int(size_mb * _MEBIBYTE)


def _mode(mode: ServerMode | str | None) -> ServerMode:
    name = os.environ.get("OPENENV_MODE", ServerMode.SIMULATION) if mode is None else mode
    try:
        return ServerMode(name.lower())
    except ValueError:
        raise ConfigurationError(f"Expected the mode 'simulation' or 'production', got {name!r}.") from None
