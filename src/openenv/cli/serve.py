"""``openenv serve``: an environment's server in this process."""

import os
import signal
import socket
import threading
import time
from functools import partial
from types import FrameType
from typing import Annotated, Literal, NoReturn

import typer

from openenv.auto.discovery import find_environment
from openenv.auto.package import EnvironmentPackage
from openenv.core.containers.health import is_loopback
from openenv.core.env_server.app import listen, run_app, run_workers

STOP_GRACE_S = 10.0
SERVED = "OPENENV_SERVED"
"""With ``--reload``: the environment to serve, for the processes that are started anew."""

Target = Annotated[str, typer.Argument(metavar="ENV", help="Name or folder of an environment.")]
Port = Annotated[int, typer.Option("--port", "-p", envvar="PORT", min=0, max=65535, help="0 takes a free one.")]
Host = Annotated[str, typer.Option(help="Address to listen on; the default is this machine only.")]
Reload = Annotated[bool, typer.Option("--reload", help="Start anew when a file of the environment changes.")]
MaxSessions = Annotated[int | None, typer.Option(min=1, help="Sessions at once.  [default: the environment's]")]
LogLevel = Annotated[
    Literal["critical", "error", "warning", "info", "debug"], typer.Option(help="Least severe log message to show.")
]
Workers = Annotated[int, typer.Option(min=1, help="Processes that serve the port together.")]
Isolation = Annotated[
    Literal["none", "process"] | None,
    typer.Option(help="Whether environments run in processes of their own.  [default: none]", show_default=False),
]
SessionsPerProcess = Annotated[
    int | None, typer.Option(min=1, help="With --isolation process: sessions that share one.  [default: 1]")
]
Fd = Annotated[int | None, typer.Option(min=0, help="Number of an inherited listening socket, for --host and --port.")]
StopOnEof = Annotated[bool, typer.Option("--stop-on-eof", help="Stop when standard input is closed.")]


def serve(
    environment: Target = ".",
    port: Port = 8000,
    host: Host = "127.0.0.1",
    reload: Reload = False,
    max_sessions: MaxSessions = None,
    workers: Workers = 1,
    isolation: Isolation = None,
    sessions_per_process: SessionsPerProcess = None,
    log_level: LogLevel = "warning",
    fd: Fd = None,
    stop_on_eof: StopOnEof = False,
) -> None:
    """Serve an environment on this machine until Ctrl-C."""
    if reload and fd is not None:
        raise typer.BadParameter("--reload opens its own socket; leave out --fd.")
    if reload and workers > 1:
        raise typer.BadParameter("--reload starts one process anew; leave out --workers, or --reload.")
    if sessions_per_process is not None and (isolation or os.environ.get("OPENENV_ISOLATION")) != "process":
        raise typer.BadParameter("--sessions-per-process says how to share a process; it needs --isolation process.")
    signal.signal(signal.SIGINT, _interrupted)
    if stop_on_eof:
        threading.Thread(target=_stop_on_eof, name="stop-on-eof", daemon=True).start()
    if max_sessions is not None:
        os.environ["MAX_CONCURRENT_ENVS"] = str(max_sessions)
    if isolation is not None:
        os.environ["OPENENV_ISOLATION"] = isolation
    if sessions_per_process is not None:
        os.environ["OPENENV_SESSIONS_PER_PROCESS"] = str(sessions_per_process)
    package = find_environment(environment)
    if reload:
        _serve_reloading(package, host, port, log_level)
        return
    app = package.app() if workers == 1 else None
    with _listener(host, port, fd) as listener:
        announce = partial(_announce, package, *listener.getsockname()[:2])
        if app is None:
            run_workers(package.app, workers, listener, log_level=log_level, on_ready=announce)
        else:
            announce()
            run_app(app, listener=listener, log_level=log_level)


def _listener(host: str, port: int, fd: int | None) -> socket.socket:
    """Open the socket here rather than in uvicorn: a taken port is then told before anything is announced."""
    return listen(host, port) if fd is None else socket.socket(fileno=fd)


def _serve_reloading(package: EnvironmentPackage, host: str, port: int, log_level: str) -> None:
    _listener(host, port, None).close()
    _announce(package, host, port)
    os.environ[SERVED] = str(package.folder)
    run_app(
        "openenv.cli.served:app",
        host=host,
        port=port,
        reload_dirs=[str(package.folder)],
        log_level=log_level,
    )


def _announce(package: EnvironmentPackage, host: str, port: int) -> None:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    url = f"http://{shown}:{port}"
    typer.echo(f"Serving {package.name} at {url}")
    typer.echo(f"  play it   openenv play {url}")
    typer.echo(f"  its API   {url}/docs")
    typer.echo("  stop it   Ctrl-C")
    if not is_loopback(host):
        typer.echo(f"Whoever can reach {host}:{port} can use this server; nothing asks them for a password.", err=True)


def _interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    # uvicorn ends in order on Ctrl-C and then passes the signal on to this.
    typer.echo()
    raise typer.Exit(130)


def _stop_on_eof() -> None:
    """Wait for the other end of standard input to go; then stop, with what was started, in order or by force."""
    # Not sys.stdin: Python could not end while this thread holds its lock.
    while os.read(0, 1024):
        pass
    _signal_all(signal.SIGTERM)
    time.sleep(STOP_GRACE_S)
    _signal_all(signal.SIGKILL)


def _signal_all(number: int) -> None:
    """Signal this process and, where it leads a process group, what it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), number)
    else:
        os.kill(os.getpid(), number)
