"""Put an environment on the wire: build the application, or serve it at once."""

import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypedDict, Unpack

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.routing import WebSocketRoute

from openenv.core.env_server.environment_types import EnvironmentFactory, EnvironmentTypes, environment_types
from openenv.core.env_server.http import BodyLimit, HTTPTransport, add_error_handlers
from openenv.core.env_server.sessions import Limits, Sessions
from openenv.core.env_server.types import ConcurrencyConfig, ServerCapacityStatus, ServerMode, SessionInfo, State
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


class ServerSettings(TypedDict, total=False):
    """What can be set by keyword, beside the public parameters, wherever a server is built.

    Attributes:
        reset_observation_cls: Class of the observation after a reset, where it differs.
        reset_timeout_s: Seconds that a reset may take; ``None``, the default, for no limit.
        step_timeout_s: Seconds that a step may take; ``None``, the default, for no limit.
        max_message_size_mb: Longest message that is read, in MiB; 100 by default.
    """

    reset_observation_cls: type[BaseModel] | None
    reset_timeout_s: float | None
    step_timeout_s: float | None
    max_message_size_mb: float


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
        self._sessions = Sessions(factory, types, limits)

    def register_routes(self, app: FastAPI, mode: ServerMode | str = ServerMode.SIMULATION) -> None:
        """Add the transports to an application.

        Args:
            app: The application.
            mode: Production leaves out the HTTP routes that drive an episode.
        """
        app.include_router(HTTPTransport(self._sessions, self._reset_observation).router(_mode(mode)))
        app.router.routes.append(WebSocketRoute("/ws", WebSocketTransport(self._sessions, self.max_message_bytes)))
        add_error_handlers(app)
        app.add_middleware(BodyLimit, max_bytes=self.max_message_bytes)

    async def close(self) -> None:
        """Close every session."""
        await self._sessions.close_all()

    def get_capacity_status(self) -> ServerCapacityStatus:
        """Count the sessions."""
        return self._sessions.capacity()

    def get_session_info(self, session_id: str) -> SessionInfo | None:
        """Describe a session; ``None`` where there is none of this id."""
        return next((session.info() for session in self._sessions if session.id == session_id), None)

    @property
    def active_sessions(self) -> int:
        """Sessions open now."""
        return len(self._sessions)

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
        log_level: Least severe log message that is shown.
        **settings: See ``ServerSettings``.

    Raises:
        ConfigurationError: The class does not say what its actions and observations are, and neither do the arguments.

    Example:
        >>> serve(environment_class=CatchEnvironment, port=8001)  # doctest: +SKIP
    """
    cls = EnvironmentFactory(environment_class).learn_class()
    if action_cls is None or observation_cls is None or state_cls is None:
        found = environment_types(cls)
        action_cls, observation_cls = action_cls or found.action, observation_cls or found.observation
        state_cls = state_cls or found.state
    if max_concurrent_envs is None:
        max_concurrent_envs = _DEFAULT_SESSIONS if getattr(cls, "SUPPORTS_CONCURRENT_SESSIONS", False) else 1
    app = create_fastapi_app(
        environment_class, action_cls, observation_cls, max_concurrent_envs, state_cls=state_cls, **settings
    )
    if port is None:
        port = int(os.environ.get("PORT", DEFAULT_PORT))
    run_app(app, host=host, port=port, log_level=log_level)


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
    settings: dict[str, Any] = {
        "host": host,
        "port": port,
        "log_level": log_level,
        "ws_max_size": _OVERSIZE_READ * int(DEFAULT_MAX_MESSAGE_MB * _MEBIBYTE),
        # Frames are short, and compressing them costs more than sending them.
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": _GRACEFUL_SHUTDOWN_S,
    }
    if listener is not None:
        uvicorn.Server(uvicorn.Config(app, **settings)).run(sockets=[listener])
    else:
        uvicorn.run(app, reload=bool(reload_dirs), reload_dirs=reload_dirs, **settings)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    await app.state.server.close()


def _concurrency(max_concurrent_envs: int | None, config: ConcurrencyConfig | None) -> ConcurrencyConfig:
    if config is None:
        return ConcurrencyConfig(max_concurrent_envs=1 if max_concurrent_envs is None else max_concurrent_envs)
    if max_concurrent_envs is not None:
        raise ConfigurationError(
            "max_concurrent_envs and concurrency_config both say how many sessions to grant; give one of them."
        )
    return config


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
