"""``openenv serve``: an environment's server in this process."""

import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NoReturn

import typer

from openenv.adapters.targets import AdaptedEnvironment, find_target
from openenv.auto.discovery import located
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import SERVED as SERVED_KINDS
from openenv.auto.target import Target
from openenv.cli.fleet import FleetOptions, serve_fleet
from openenv.cli.groups import command_app
from openenv.cli.loading import exempt_from_collection
from openenv.cli.options import LOG_FORMAT, LOG_LEVEL, ListenHost, LogLevelName, TrustRemoteCode, environment_argument
from openenv.cli.setting_options import options_of, server_options, with_settings
from openenv.cli.stop_on_eof import watch_stdin
from openenv.cli.targets import find_mcp_server, refusing
from openenv.cli.views.announcement import Announcement, make_token_for
from openenv.core.addresses import is_loopback
from openenv.core.env_server.access.policy import AccessPolicy, auth_requirement_of
from openenv.core.env_server.history.stores.choice import is_address
from openenv.core.env_server.serving import RunOptions, listen, prepare, run_app, run_workers
from openenv.core.env_server.settings import SETTINGS, ServerConfig, environment_variables
from openenv.core.env_server.tls import TLS

HERE = "."
SERVED = "OPENENV_SERVED"
"""Environment that ``--reload`` serves, for the processes that are started anew."""
SERVED_APP = "OPENENV_SERVED_APP"
"""Application of ``--reload`` with ``--app``."""

processes_option, access_option, logs_option, mcp_option, programs_option = (
    partial(typer.Option, show_default=False, rich_help_panel=heading)
    for heading in ("Processes", "Access", "Logs and telemetry", "MCP server", "For programs that start this one")
)


@with_settings(server_options() + options_of(FleetOptions))
def serve(
    settings: dict[str, Any],
    environment: Annotated[
        str, environment_argument("Name, folder or file of an environment, PREFIX:ID, or a Space.")
    ] = HERE,
    port: Annotated[
        int, typer.Option("--port", "-p", envvar="PORT", min=0, max=65535, help="Port to listen on; 0 for a free one.")
    ] = 8000,
    host: ListenHost = "127.0.0.1",
    reload: Annotated[bool, typer.Option("--reload", help="Restart when a file of the environment changes.")] = False,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME", help="Application in the folder.  [default: the manifest's]", show_default=False
        ),
    ] = None,
    venv: Annotated[
        bool, typer.Option("--venv", help="Run in a separate Python environment, with the folder's requirements.")
    ] = False,
    trust_remote_code: TrustRemoteCode = False,
    workers: Annotated[
        int, processes_option(min=1, help="Processes that serve the port together.", show_default=True)
    ] = 1,
    ssl_certfile: Annotated[
        str | None, access_option(metavar="FILE", help="Certificate to serve https and wss with.")
    ] = None,
    ssl_keyfile: Annotated[str | None, access_option(metavar="FILE", help="Private key of the certificate.")] = None,
    ssl_keyfile_password: Annotated[
        str | None, access_option(envvar="OPENENV_SSL_KEYFILE_PASSWORD", help="Password of the private key.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print where the server is.")] = False,
    log_level: Annotated[
        LogLevelName, logs_option(envvar=LOG_LEVEL, help="Least severe log message to show.", show_default=True)
    ] = "warning",
    log_format: Annotated[
        Literal["text", "json"] | None,
        logs_option(envvar=LOG_FORMAT, help="Format of the log; json for one object a line.  [default: text]"),
    ] = None,
    mcp_server: Annotated[
        str | None, mcp_option(metavar="COMMAND", help="Serve the tools of the MCP server that COMMAND starts.")
    ] = None,
    mcp_env: Annotated[
        list[str] | None, mcp_option(metavar="NAME", help="Variable that the MCP server gets; may be given again.")
    ] = None,
    tasks: Annotated[
        Path | None,
        mcp_option(metavar="FILE", dir_okay=False, help="With --mcp-server: tasks, as JSON or JSON lines."),
    ] = None,
    reward: Annotated[
        str | None,
        mcp_option(metavar="FILE.py:FUNCTION", help="With --mcp-server: function that computes the rewards."),
    ] = None,
    fd: Annotated[
        int | None, programs_option(min=0, help="Number of an inherited listening socket, for --host and --port.")
    ] = None,
    stop_on_eof: Annotated[bool, programs_option("--stop-on-eof", help="Stop when standard input is closed.")] = False,
) -> None:
    """Serve an environment on this machine until Ctrl-C."""
    if reload:
        _check_reload(fd, workers)
    fleet = FleetOptions(**{name: settings.pop(name) for name in [*settings] if name not in SETTINGS})
    _check_fleet(fleet, alone=workers == 1 and not reload and fd is None)
    with refusing():
        target = located(Target.of(environment).required(SERVED_KINDS, "`openenv serve`"), trusted=trust_remote_code)
    if venv:
        _continue_in_venv(Path(target.text), environment)
    signal.signal(signal.SIGINT, _interrupted)
    if stop_on_eof:
        watch_stdin()
    _set_variables(settings)
    if is_loopback(host) and fd is None and not os.environ.get(SETTINGS["token"].variable):
        os.environ.setdefault(SETTINGS["debug"].variable, "1")  # all clients are on this machine, as its author is
    if stop_on_eof:  # the program that started this server is its only client
        os.environ.setdefault(SETTINGS["drain_s"].variable, "0")
    package = _find(target, app, mcp_server, tasks, reward, mcp_env or [])
    run_options: RunOptions = {
        "log_level": log_level,
        "log_format": log_format,
        "tls": TLS.of(ssl_certfile, ssl_keyfile, ssl_keyfile_password),
    }
    if reload:
        if not isinstance(package, EnvironmentPackage):
            raise typer.BadParameter(f"--reload watches an environment's folder, and {package.name} has none.")
        os.environ.update({SERVED: package.target} | ({} if app is None else {SERVED_APP: app}))
        _serve_reloading(package, host, port, run_options, quiet=quiet)
        return
    if fleet.kind is not None:
        by_name = isinstance(package, EnvironmentPackage) and app is None
        serve_fleet(str(target) if by_name else package, host, port, fleet, run_options)
        return
    _serve_here(package, _listener(host, port, fd), workers, run_options, quiet=quiet)


app = command_app("serve", serve)
"""The command as an application, for programs."""


def _serve_here(
    package: EnvironmentPackage | AdaptedEnvironment,
    listener: socket.socket,
    workers: int,
    run_options: RunOptions,
    *,
    quiet: bool,
) -> None:
    with listener:
        bound, bound_port = listener.getsockname()[:2]
        made_token = make_token_for(bound)
        announcement = Announcement(package.name, bound, bound_port, run_options["tls"] is not None, made_token, quiet)
        if workers > 1:
            run_workers(package.app, workers, listener, on_ready=announcement.show, **run_options)
            return
        with exempt_from_collection():
            application = package.app()
        prepare(application)
        announcement.show(auth_requirement_of(application))
        run_app(application, listener=listener, **run_options)


def _check_fleet(fleet: FleetOptions, *, alone: bool) -> None:
    if fleet.kind is None and fleet != FleetOptions():
        raise typer.BadParameter("--replicas, and other options of replicas, need --fleet ray.")
    if fleet.kind is not None and not alone:
        raise typer.BadParameter("A fleet's servers are processes already; leave out --workers, --reload and --fd.")


def _check_reload(fd: int | None, workers: int) -> None:
    if fd is not None:
        raise typer.BadParameter("--reload opens its own socket; leave out --fd.")
    if workers > 1:
        raise typer.BadParameter("--reload restarts one process; leave out --workers, or --reload.")


def _continue_in_venv(folder: Path, given: str) -> NoReturn:
    """Become the same command in the folder's Python environment, which is built first where there is none."""
    from openenv.core.providers.venv.environment import hold_environment  # the server itself builds none

    venv = hold_environment(folder)
    os.set_inheritable(venv.descriptor, True)  # the server holds it, until it ends
    os.environ.update(venv.variables)
    python = str(venv.path / "bin" / "python")
    # A Space is in the folder by now, and what downloads Spaces may not be in the venv.
    arguments = [str(folder) if argument == given else argument for argument in sys.argv[1:] if argument != "--venv"]
    os.execv(python, [python, "-P", "-m", "openenv.cli", *arguments])  # noqa: S606  # no shell is the point


def _find(
    target: Target,
    app: str | None,
    mcp_server: str | None,
    tasks: Path | None,
    reward: str | None,
    mcp_env: list[str],
) -> EnvironmentPackage | AdaptedEnvironment:
    if mcp_server is None:
        if tasks or reward or mcp_env:
            raise typer.BadParameter("--tasks, --reward and --mcp-env belong to --mcp-server, which is missing.")
        with refusing():
            found = find_target(target, app)
            if isinstance(found, EnvironmentPackage):
                found.check()
        return found
    if target.text != HERE:
        raise typer.BadParameter(f"--mcp-server serves the tools of an MCP server; leave out {target}.")
    return find_mcp_server(mcp_server, tasks, reward, mcp_env)


def _set_variables(settings: dict[str, Any]) -> None:
    """Set settings as variables for the process that makes the environment's application, this or another."""
    if journal := settings.get("journal"):
        settings["journal"] = _absolute(journal)
    if traces := settings.get("traces"):
        settings["traces"] = _absolute(traces)
    isolation = settings.get("isolation") or os.environ.get(SETTINGS["isolation"].variable, "none")
    if isolation == "none" and "sessions_per_process" in settings:
        raise typer.BadParameter(
            "--sessions-per-process needs --isolation process, whose processes the sessions share."
        )
    os.environ.update(environment_variables(settings))
    ServerConfig.read()


def _absolute(location: str) -> str:
    """Return a file's path from the root, so that any folder finds it; an address stays."""
    return location if is_address(location) else str(Path(location).absolute())


def _listener(host: str, port: int, fd: int | None) -> socket.socket:
    """Open the socket here rather than in uvicorn, so that a used port is an error before anything is announced."""
    return listen(host, port) if fd is None else socket.socket(fileno=fd)


def _serve_reloading(
    package: EnvironmentPackage, host: str, port: int, run_options: RunOptions, *, quiet: bool
) -> None:
    with _listener(host, port, None) as listener:
        port = listener.getsockname()[1]
    announcement = Announcement(package.name, host, port, run_options["tls"] is not None, make_token_for(host), quiet)
    announcement.show(AccessPolicy.of(ServerConfig.read()).auth_requirement)
    run_app(
        "openenv.cli.served:app",
        host=host,
        port=port,
        reload_dirs=[str(package.folder)],
        **run_options,
    )


def _interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    # uvicorn ends in order on Ctrl-C and then passes the signal on to this.
    typer.echo()
    raise typer.Exit(130)
