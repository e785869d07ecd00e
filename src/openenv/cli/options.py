"""Arguments and options that several commands have, each defined once."""

from functools import partial
from typing import Annotated, Any

import typer

from openenv.auto.discovery import list_environments
from openenv.auto.installing import TRUST_VARIABLE
from openenv.core.env_server.logs import LogLevel, LogSettings
from openenv.core.env_server.settings import check_field_path
from openenv.core.exceptions import ConfigurationError

PLAYED_TEXT = "Name, folder or file of an environment, PREFIX:ID, a URL, a Space, or docker:IMAGE."
LogLevelName = LogLevel
LOG_LEVEL, LOG_FORMAT = map(LogSettings.variable, ("level", "format"))
"""Variables of the options ``--log-level`` and ``--log-format``."""


def complete_environment(incomplete: str) -> list[str]:
    """Return the names of installed environments that begin like what was typed; a shell offers them for ``ENV``.

    Folders and addresses are left to the shell, which completes files where this offers nothing.
    """
    return [package.name for package in list_environments() if package.name.startswith(incomplete)]


def environment_argument(text: str) -> Any:
    """Make the argument ``ENV``."""
    return typer.Argument(metavar="ENV", help=text, autocompletion=complete_environment)


def field_paths(paths: list[str] | None) -> list[str]:
    """Check the value of ``--traces-leave-out``."""
    try:
        return [check_field_path(path) for path in paths or ()]
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


space_option = partial(typer.Option, rich_help_panel="Space")
"""Makes an option that changes a Space."""


def secret_option(*names: str) -> Any:
    """Make the option that gives a Space a secret."""
    return space_option(
        *names,
        metavar="NAME[=VALUE]",
        help="Secret, by default with the value of your variable of that name; may be given again.",
        show_default=False,
    )


def variable_option(*names: str) -> Any:
    """Make the option that sets an environment variable where the environment runs."""
    return space_option(
        *names, metavar="NAME=VALUE", help="Environment variable; may be given again.", show_default=False
    )


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", envvar=TRUST_VARIABLE, help="Run a Space's code on this machine.")
]
Private = Annotated[bool, space_option("--private", help="Show the Space to you and your organization only.")]
ListenHost = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Address to listen on.  [default: 127.0.0.1, this machine only]",
        show_default=False,
    ),
]

# What is played, by whom and how.
PlayedEnvironment = Annotated[str, environment_argument(PLAYED_TEXT)]
PlayedEnvironments = Annotated[
    list[str],
    typer.Argument(metavar="ENV", help=f"{PLAYED_TEXT} Several are a grid.", autocompletion=complete_environment),
]
ResetParameters = Annotated[
    list[str] | None,
    typer.Option(
        "--reset",
        metavar="NAME=VALUE",
        help="Parameter of each reset, as in difficulty=hard; may be given again.",
    ),
]

player_option, episodes_option, folder_option = (
    partial(typer.Option, rich_help_panel=heading) for heading in ("Player", "Episodes", "Folder")
)
"""Function that makes an option under a heading, as the options of ``PlaySettings`` have them."""
LLMPort = Annotated[
    int | None, player_option(min=1, max=65535, help="Port of --llm-endpoint, where the address has none.")
]
Sessions = Annotated[int, episodes_option(min=1, help="Episodes that are played at once.")]
