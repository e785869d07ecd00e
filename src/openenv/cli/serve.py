"""``openenv serve``: an environment's server in this process."""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal, NoReturn

import typer

from openenv.adapters.targets import AdaptedEnvironment
from openenv.auto.package import EnvironmentPackage
from openenv.cli.announcement import Announcement, make_token_for
from openenv.cli.fleet import FleetOptions, serve_fleet
from openenv.cli.hub import TrustRemoteCode, local_target
from openenv.cli.targets import find_mcp_server, find_target
from openenv.core.containers.venv_cache import environment_for, variables_of
from openenv.core.env_server.app import Looks, listen, run_app, run_workers
from openenv.core.env_server.journal.stores import is_address
from openenv.core.env_server.security import Access, way_in_of
from openenv.core.env_server.settings import limit_variable
from openenv.core.env_server.tls import TLS

STOP_GRACE_S = 10.0
HERE = "."
SERVED = "OPENENV_SERVED"
"""With ``--reload``: the environment to serve, for the processes that are started anew."""
SERVED_APP = "OPENENV_SERVED_APP"
"""With ``--reload`` and ``--app``: its application."""

Target = Annotated[
    str, typer.Argument(metavar="ENV", help="Name, folder or file of an environment, PREFIX:ID, or a Space.")
]
App = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME", help="Application in the folder.  [default: the manifest's]", show_default=False
    ),
]
Venv = Annotated[
    bool, typer.Option("--venv", help="Run in a Python environment of its own, with what the folder asks for.")
]
McpServer = Annotated[
    str | None,
    typer.Option(metavar="COMMAND", help="Serve the tools of the MCP server that this starts.", show_default=False),
]
Tasks = Annotated[
    Path | None,
    typer.Option(metavar="FILE", dir_okay=False, help="With --mcp-server: its tasks, as JSON or JSON lines."),
]
Reward = Annotated[
    str | None,
    typer.Option(metavar="FILE.py:FUNCTION", help="With --mcp-server: what computes the rewards.", show_default=False),
]
McpEnv = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Variable that the MCP server gets; may be given again.", show_default=False),
]
Port = Annotated[int, typer.Option("--port", "-p", envvar="PORT", min=0, max=65535, help="0 takes a free one.")]
Host = Annotated[str, typer.Option(help="Address to listen on; the default is this machine only.")]
Reload = Annotated[bool, typer.Option("--reload", help="Start anew when a file of the environment changes.")]
MaxSessions = Annotated[int | None, typer.Option(min=1, help="Sessions at once.  [default: the environment's]")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not print where the server is.")]
LogLevel = Annotated[
    Literal["critical", "error", "warning", "info", "debug"], typer.Option(help="Least severe log message to show.")
]
LogFormat = Annotated[
    Literal["text", "json"] | None,
    typer.Option(help="How to write the log; json for one object a line.  [default: text]", show_default=False),
]
Telemetry = Annotated[bool, typer.Option("--telemetry", help="Send OpenTelemetry traces where OTEL_* says.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes that serve the port together.")]
Isolation = Annotated[
    Literal["none", "process"] | None,
    typer.Option(help="Whether environments run in processes of their own.  [default: none]", show_default=False),
]
SessionsPerProcess = Annotated[
    int | None, typer.Option(min=1, help="With --isolation process: sessions that share one.  [default: 1]")
]
MaxSessionsPerClient = Annotated[int | None, typer.Option(min=1, help="Sessions at once for clients of one address.")]
MaxMessagesPerS = Annotated[
    float | None,
    typer.Option(min=0.001, help="Messages in a second over one WebSocket, or from one address over HTTP."),
]
MaxWaitS = Annotated[float | None, typer.Option(min=0, help="Longest wait in line for a session.  [default: 600]")]
ResetTimeoutS = Annotated[float | None, typer.Option(min=0.001, help="Seconds that a reset may take.")]
StepTimeoutS = Annotated[float | None, typer.Option(min=0.001, help="Seconds that a step may take.")]
ResumeWindowS = Annotated[
    float | None, typer.Option(min=0, help="Seconds to keep the session of a lost connection.  [default: 30]")
]
DrainS = Annotated[float | None, typer.Option(min=0, help="Seconds for episodes to end after SIGTERM.  [default: 5]")]
Journal = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|postgresql://...",
        help="File, or database, from which sessions go on after the server was killed.  [default: none]",
        show_default=False,
    ),
]
JournalMaxAgeS = Annotated[
    float | None, typer.Option(min=1, help="Seconds for which the journal keeps sessions.  [default: a week]")
]
JournalMaxSizeMb = Annotated[float | None, typer.Option(min=1, help="MiB that the journal may take.  [default: 1024]")]
Auth = Annotated[
    Literal["token", "none"] | None,
    typer.Option(help="Whether peers from other machines need a token.  [default: token]", show_default=False),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(help="Further name that the server is known by; may be given again.", show_default=False),
]
AllowedOrigin = Annotated[
    list[str] | None,
    typer.Option(help="Origin of a site whose pages may drive the server; may be given again.", show_default=False),
]
Debug = Annotated[bool, typer.Option("--debug", help="Tell clients where the environment raised.")]
SslCertfile = Annotated[str | None, typer.Option(help="Certificate to serve https and wss with.", show_default=False)]
SslKeyfile = Annotated[str | None, typer.Option(help="Its private key.", show_default=False)]
SslKeyfilePassword = Annotated[
    str | None,
    typer.Option(envvar="OPENENV_SSL_KEYFILE_PASSWORD", help="What the key is encrypted with.", show_default=False),
]
FleetKind = Annotated[
    Literal["ray"] | None,
    typer.Option("--fleet", help="Serve with many servers behind one address, on Ray.", show_default=False),
]
Replicas = Annotated[int, typer.Option(min=1, help="With --fleet: servers to begin with.")]
MinReplicas = Annotated[int | None, typer.Option(min=1, help="With --fleet: the fewest.  [default: --replicas]")]
MaxReplicas = Annotated[
    int | None, typer.Option(min=1, help="With --fleet: the most; added as sessions need them.  [default: --replicas]")
]
ReplicaCpus = Annotated[float | None, typer.Option(min=0.01, help="With --fleet: processors that each server needs.")]
ReplicaMemory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="With --fleet: memory that each server needs, as 2g.")
]
Fd = Annotated[int | None, typer.Option(min=0, help="Number of an inherited listening socket, for --host and --port.")]
StopOnEof = Annotated[bool, typer.Option("--stop-on-eof", help="Stop when standard input is closed.")]


def serve(
    environment: Target = HERE,
    port: Port = 8000,
    host: Host = "127.0.0.1",
    reload: Reload = False,
    app: App = None,
    venv: Venv = False,
    trust_remote_code: TrustRemoteCode = False,
    mcp_server: McpServer = None,
    mcp_env: McpEnv = None,
    tasks: Tasks = None,
    reward: Reward = None,
    max_sessions: MaxSessions = None,
    workers: Workers = 1,
    fleet: FleetKind = None,
    replicas: Replicas = 1,
    min_replicas: MinReplicas = None,
    max_replicas: MaxReplicas = None,
    replica_cpus: ReplicaCpus = None,
    replica_memory: ReplicaMemory = None,
    isolation: Isolation = None,
    sessions_per_process: SessionsPerProcess = None,
    max_sessions_per_client: MaxSessionsPerClient = None,
    max_messages_per_s: MaxMessagesPerS = None,
    max_wait_s: MaxWaitS = None,
    reset_timeout_s: ResetTimeoutS = None,
    step_timeout_s: StepTimeoutS = None,
    resume_window_s: ResumeWindowS = None,
    drain_s: DrainS = None,
    journal: Journal = None,
    journal_max_age_s: JournalMaxAgeS = None,
    journal_max_size_mb: JournalMaxSizeMb = None,
    quiet: Quiet = False,
    log_level: LogLevel = "warning",
    log_format: LogFormat = None,
    telemetry: Telemetry = False,
    auth: Auth = None,
    allowed_host: AllowedHost = None,
    allowed_origin: AllowedOrigin = None,
    debug: Debug = False,
    ssl_certfile: SslCertfile = None,
    ssl_keyfile: SslKeyfile = None,
    ssl_keyfile_password: SslKeyfilePassword = None,
    fd: Fd = None,
    stop_on_eof: StopOnEof = False,
) -> None:
    """Serve an environment on this machine until Ctrl-C."""
    if reload:
        _check_reload(fd, workers)
    fleet_options = FleetOptions(replicas, min_replicas, max_replicas, replica_cpus, replica_memory)
    _check_fleet(fleet, fleet_options, alone=workers == 1 and not reload and fd is None)
    if sessions_per_process is not None and (isolation or os.environ.get("OPENENV_ISOLATION")) != "process":
        raise typer.BadParameter("--sessions-per-process says how to share a process; it needs --isolation process.")
    given = environment
    environment = local_target(given, trusted=trust_remote_code)
    if venv:
        _go_on_in_venv(Path(environment), given)
    signal.signal(signal.SIGINT, _interrupted)
    if stop_on_eof:
        threading.Thread(target=_stop_on_eof, name="stop-on-eof", daemon=True).start()
    limits = {
        "max_sessions_per_client": max_sessions_per_client,
        "max_messages_per_s": max_messages_per_s,
        "max_wait_s": max_wait_s,
        "reset_timeout_s": reset_timeout_s,
        "step_timeout_s": step_timeout_s,
        "resume_window_s": resume_window_s,
        "drain_s": drain_s,
        "journal_max_age_s": journal_max_age_s,
        "journal_max_size_mb": journal_max_size_mb,
    }
    _hand_on(
        MAX_CONCURRENT_ENVS=max_sessions,
        OPENENV_ISOLATION=isolation,
        OPENENV_SESSIONS_PER_PROCESS=sessions_per_process,
        OPENENV_JOURNAL=journal and _journal_place(journal),
        OPENENV_AUTH=auth,
        OPENENV_ALLOWED_HOSTS=",".join(allowed_host) if allowed_host else None,
        OPENENV_ALLOWED_ORIGINS=",".join(allowed_origin) if allowed_origin else None,
        OPENENV_DEBUG="1" if debug else None,
        **{limit_variable(name): value for name, value in limits.items()},
    )
    if stop_on_eof:  # whoever started this server is its client, and nobody is left to play on
        os.environ.setdefault(limit_variable("drain_s"), "0")
    if telemetry:
        os.environ["OPENENV_TELEMETRY"] = "1"
    package = _target(environment, app, mcp_server, tasks, reward, mcp_env or [])
    looks: Looks = {
        "log_level": log_level,
        "log_format": log_format,
        "tls": TLS.of(ssl_certfile, ssl_keyfile, ssl_keyfile_password),
    }
    if reload:
        if not isinstance(package, EnvironmentPackage):
            raise typer.BadParameter(f"--reload watches an environment's folder, and {package.name} has none.")
        _hand_on(**{SERVED: package.target, SERVED_APP: app})
        _serve_reloading(package, host, port, looks, quiet=quiet)
        return
    if fleet is not None:
        by_name = isinstance(package, EnvironmentPackage) and app is None
        serve_fleet(environment if by_name else package, host, port, fleet_options, looks)
        return
    _serve_here(package, _listener(host, port, fd), workers, looks, quiet=quiet)


def _serve_here(
    package: EnvironmentPackage | AdaptedEnvironment,
    listener: socket.socket,
    workers: int,
    looks: Looks,
    *,
    quiet: bool,
) -> None:
    with listener:
        bound, bound_port = listener.getsockname()[:2]
        made = make_token_for(bound)
        announcement = Announcement(package.name, bound, bound_port, looks["tls"] is not None, made, quiet)
        if workers > 1:
            run_workers(package.app, workers, listener, on_ready=announcement.show, **looks)
            return
        application = package.app()
        announcement.show(way_in_of(application))
        run_app(application, listener=listener, **looks)


def _check_fleet(fleet: str | None, options: FleetOptions, *, alone: bool) -> None:
    if fleet is None and options != FleetOptions(1):
        raise typer.BadParameter("--replicas, and what else is said of them, needs --fleet ray.")
    if fleet is not None and not alone:
        raise typer.BadParameter("A fleet's servers are processes already; leave out --workers, --reload and --fd.")


def _check_reload(fd: int | None, workers: int) -> None:
    if fd is not None:
        raise typer.BadParameter("--reload opens its own socket; leave out --fd.")
    if workers > 1:
        raise typer.BadParameter("--reload starts one process anew; leave out --workers, or --reload.")


def _go_on_in_venv(folder: Path, given: str) -> NoReturn:
    """Become the same command in the folder's own Python environment, which is built first where there is none."""
    venv = environment_for(folder)
    os.environ.update(variables_of(venv))
    python = str(venv / "bin" / "python")
    # A Space is in the folder by now, and what downloads Spaces may not be in the venv.
    arguments = [str(folder) if argument == given else argument for argument in sys.argv[1:] if argument != "--venv"]
    os.execv(python, [python, "-P", "-m", "openenv.cli", *arguments])  # noqa: S606  # no shell is the point


def _target(
    environment: str,
    app: str | None,
    mcp_server: str | None,
    tasks: Path | None,
    reward: str | None,
    mcp_env: list[str],
) -> EnvironmentPackage | AdaptedEnvironment:
    if mcp_server is None:
        if tasks or reward or mcp_env:
            raise typer.BadParameter("--tasks, --reward and --mcp-env say more of --mcp-server, which is missing.")
        return find_target(environment, app)
    if environment != HERE:
        raise typer.BadParameter(f"--mcp-server serves the tools of an MCP server; leave out {environment}.")
    return find_mcp_server(mcp_server, tasks, reward, mcp_env)


def _hand_on(**variables: object) -> None:
    """Hand options on to wherever the environment's application is made."""
    for name, value in variables.items():
        if value is not None:
            os.environ[name] = str(value)


def _journal_place(journal: str) -> str:
    """Name a file so that it is found from any folder."""
    return journal if is_address(journal) else str(Path(journal).absolute())


def _listener(host: str, port: int, fd: int | None) -> socket.socket:
    """Open the socket here rather than in uvicorn: a taken port is then told before anything is announced."""
    return listen(host, port) if fd is None else socket.socket(fileno=fd)


def _serve_reloading(package: EnvironmentPackage, host: str, port: int, looks: Looks, *, quiet: bool) -> None:
    with _listener(host, port, None) as listener:
        port = listener.getsockname()[1]
    announcement = Announcement(package.name, host, port, looks["tls"] is not None, make_token_for(host), quiet)
    announcement.show(Access.of({}).way_in)
    run_app(
        "openenv.cli.served:app",
        host=host,
        port=port,
        reload_dirs=[str(package.folder)],
        **looks,
    )


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
