"""``openenv mcp``: an environment for an agent that speaks MCP over standard input and output."""

import logging.config
from typing import Annotated

import typer

from openenv.adapters.targets import find_target
from openenv.cli.options import LOG_LEVEL, LogLevelName, environment_argument
from openenv.cli.targets import refusing
from openenv.core.env_server.logs import LogSettings, log_config
from openenv.core.env_server.mcp.agent import Served, task_of
from openenv.core.env_server.mcp.stdio import Streams, serve_stdio
from openenv.core.event_loop import new_event_loop
from openenv.core.exceptions import ConfigurationError

Target = Annotated[str, environment_argument("Name, folder or file of an environment, PREFIX:ID, or a Space.")]
Task = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Parameter of the reset, as in seed=3; may be given again."),
]
LogLevel = Annotated[
    LogLevelName,
    typer.Option(envvar=LOG_LEVEL, help="Least severe log message to show, on standard error."),
]


def mcp(environment: Target = ".", task: Task = None, log_level: LogLevel = "warning") -> None:
    """Offer an environment's tools to the agent that starts this command, for one episode."""
    task_parameters = task_of(dict(map(_parted, task or [])))
    streams = Streams.take()  # before anything of the environment is imported, which might print
    logging.config.dictConfig(log_config(log_level, LogSettings.from_variables().format))
    with refusing():
        found = find_target(environment)
    app = found.app()
    agents = getattr(app.state, "openenv_agents", None)
    if agents is None:
        raise ConfigurationError(
            f"Expected {environment} to have an application that create_app has made, got {type(app).__name__}."
        )
    served: Served = agents.served
    loop = new_event_loop()
    try:
        loop.run_until_complete(serve_stdio(served, task_parameters, streams))
    finally:
        loop.close()


def _parted(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"Expected NAME=VALUE, as in seed=3, got {text!r}.", param_hint="--task")
    return name, value
