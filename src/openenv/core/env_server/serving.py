"""Serving of an application on uvicorn: in this process, or in several that share one port.

The module is not called ``serve``: as an attribute of the package, that name is the function of ``app.py``.
"""

import argparse
import logging
import logging.config
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypedDict, get_args

import uvicorn
from fastapi import FastAPI

from openenv.core.env_server.access.policy import AuthRequirement, check_access
from openenv.core.env_server.execution.import_spec import ImportSpec
from openenv.core.env_server.http.uvicorn_connections import HTTP
from openenv.core.env_server.logs import DEFAULT_LEVEL, LogFormat, LogLevel, LogSettings, log_config
from openenv.core.env_server.operations.drain import DrainingServer, longest_frame, sessions_of
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.tls import TLS
from openenv.core.env_server.websocket.uvicorn_sockets import SOCKETS
from openenv.core.env_server.workers.supervisor import Supervisor, run_supervisor
from openenv.core.exceptions import ConfigurationError
from openenv.core.import_guard import refuse_while_importing

DEFAULT_PORT = 8000
_GRACEFUL_SHUTDOWN_S = 5
# Seconds for a worker to end in order: uvicorn's timeout, that of the environments' ``close``, and one more.
_WORKERS_GRACE_S = 11.0
_BACKLOG = 2048


class RunOptions(TypedDict):
    """Arguments of ``run_app`` and ``run_workers`` for the log and the certificate of a server.

    Attributes:
        log_level: Least severe log message that is shown; ``None`` for what ``OPENENV_LOG_LEVEL`` says, or warnings.
        log_format: Format of the log, see ``logs.log_config``; ``None`` for what ``OPENENV_LOG_FORMAT`` says.
        tls: The certificate to serve ``https`` and ``wss`` with; ``None`` for neither.
    """

    log_level: str | None
    log_format: LogFormat | None
    tls: TLS | None


def _announce_nothing(_auth_requirement: AuthRequirement) -> None:
    """Announce a server without a command line."""


def prepare(app: Any) -> None:
    """Prepare an application before it accepts clients, see ``HTTPEnvServer.prepare``.

    Args:
        app: The application; one that is not of this package needs no preparation.

    Raises:
        ConfigurationError: The application's journal can't be used, or it requires a token of everybody and has none.
    """
    check_access(app)
    if sessions_of(app) is not None:
        app.state.openenv_server.prepare()


def run_app(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    listener: socket.socket | None = None,
    reload_dirs: list[str] | None = None,
    log_level: str | None = None,
    log_format: LogFormat | None = None,
    tls: TLS | None = None,
) -> None:
    """Run an application until the process gets a signal to end.

    Args:
        app: The application or, with ``reload_dirs``, its import path.
        host: Address to listen on.
        port: Port to listen on.
        listener: A bound socket, instead of host and port.
        reload_dirs: Folders in which a changed file restarts the application.
        log_level: Least severe log message that is shown; ``None`` for what ``OPENENV_LOG_LEVEL`` says, or warnings.
        log_format: Format of the log, see ``logs.log_config``; ``None`` for what ``OPENENV_LOG_FORMAT`` says.
        tls: The certificate to serve ``https`` and ``wss`` with.
    """
    refuse_while_importing()
    settings = {"host": host, "port": port, **uvicorn_settings(log_level, log_format, tls)}
    if reload_dirs:
        settings["ws_max_size"] = longest_frame(ServerConfig.read())  # the application is made in another process
        uvicorn.run(app, reload=True, reload_dirs=reload_dirs, **settings)
        return
    server = DrainingServer(uvicorn.Config(app, **settings), sessions_of(app))
    with suppress(KeyboardInterrupt):  # as uvicorn.run does
        server.run(sockets=None if listener is None else [listener])


def server_main(app: FastAPI, *, default_port: int = DEFAULT_PORT) -> None:
    """Run an application as the program's command line says: ``--host``, ``--port``, ``--log-level``, ``--log-format``.

    It is the whole ``main`` of an environment's ``server/app.py``::

        app = create_app(MyEnvironment, env_name="my_env")


        def main() -> None:
            server_main(app)

    Args:
        app: The application.
        default_port: Port to listen on without the option.
    """
    parser = argparse.ArgumentParser(description=f"Serve {app.title}.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=default_port, help="port to listen on (default: %(default)s)")
    parser.add_argument("--log-level", choices=get_args(LogLevel), help="least severe log message to show")
    parser.add_argument("--log-format", choices=get_args(LogFormat), help="how to write the log")
    given = parser.parse_args()
    run_app(app, host=given.host, port=given.port, log_level=given.log_level, log_format=given.log_format)


def run_workers(
    make_app: Callable[[], Any],
    count: int,
    listener: socket.socket,
    *,
    log_level: str | None = None,
    log_format: LogFormat | None = None,
    tls: TLS | None = None,
    on_ready: Callable[[AuthRequirement], object] = _announce_nothing,
    grace_s: float = _WORKERS_GRACE_S,
) -> None:
    """Run an application in several processes that share one port, until this process gets a signal to end.

    Args:
        make_app: Makes the application; each worker process imports it by name and calls it.
        count: Number of workers.
        listener: A listening socket.
        log_level: Least severe log message that is shown; ``None`` for what ``OPENENV_LOG_LEVEL`` says, or warnings.
        log_format: Format of the log, see ``logs.log_config``; ``None`` for what ``OPENENV_LOG_FORMAT`` says.
        tls: The certificate to serve ``https`` and ``wss`` with.
        on_ready: Called once every worker accepts clients, with what peers from other machines have to show; clients
            that connect before wait.
        grace_s: Seconds for the workers to end in order, before they are killed.

    Raises:
        ConfigurationError: The workers could not import ``make_app``, or ``count`` is below 1.
        ProviderError: A worker could not start.
    """
    refuse_while_importing()
    if count < 1:
        raise ConfigurationError(f"Expected at least 1 worker, got {count}.")
    import_spec = ImportSpec.of(make_app, "the environment", needed_for=f"workers={count}", instead="workers=1")
    settings = uvicorn_settings(log_level, log_format, tls)
    logging.config.dictConfig(settings["log_config"])  # as uvicorn does in each worker
    with suppress(KeyboardInterrupt):  # as uvicorn does with one process
        run_supervisor(Supervisor(import_spec, count, listener, settings, on_ready, grace_s))


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.

    Raises:
        ConfigurationError: The port is in use, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]  # the rest repeats the address
        raise ConfigurationError(
            f"Can't listen on {host}:{port}: {reason}. Choose another --port (0 chooses a free one) or --host."
        ) from error


def uvicorn_settings(log_level: str | None, log_format: LogFormat | None, tls: TLS | None) -> dict[str, Any]:
    """Return the settings with which uvicorn runs a server; ``DrainingServer`` adds those of the application.

    Args:
        log_level: Least severe log message that is shown; ``None`` for what ``OPENENV_LOG_LEVEL`` says, or warnings.
        log_format: Format of the log, see ``logs.log_config``; ``None`` for what ``OPENENV_LOG_FORMAT`` says.
        tls: The certificate to serve ``https`` and ``wss`` with.
    """
    log = LogSettings.from_variables()
    log_level = log_level or log.level or DEFAULT_LEVEL
    return {
        **({} if tls is None else tls.uvicorn_settings()),
        "log_level": log_level,
        "log_config": log_config(log_level, log_format or log.format),
        "ws_max_size": longest_frame(ServerConfig()),
        "ws": SOCKETS,
        "http": HTTP,
        # Frames are short, and compressing them costs more than sending them.
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": _GRACEFUL_SHUTDOWN_S,
    }
