"""Arguments and options that several commands have, each defined once; what one command has alone stands with it."""

from typing import Annotated, Any, Literal

import typer

from openenv.auto.discovery import list_environments
from openenv.auto.installing import TRUST_VARIABLE
from openenv.core.env_server.logs import LogLevel, LogSettings
from openenv.core.env_server.settings import check_field_path
from openenv.core.exceptions import ConfigurationError

PLAYED_TEXT = "Name, folder or file of an environment, PREFIX:ID, a URL, a Space, or docker:IMAGE."
FormName = Literal["tools", "text"]
LogLevelName = LogLevel
LOG_LEVEL, LOG_FORMAT = map(LogSettings.variable, ("level", "format"))
"""Variables of the options ``--log-level`` and ``--log-format``."""


def complete_environment(incomplete: str) -> list[str]:
    """Return the names of installed environments that begin like what was typed; a shell offers them for ``ENV``.

    Folders and addresses are left to the shell, which completes files where this offers nothing.

    Args:
        incomplete: What was typed so far.
    """
    return [package.name for package in list_environments() if package.name.startswith(incomplete)]


def environment_argument(text: str) -> Any:
    """Make the argument ``ENV``.

    Args:
        text: What the command takes for an environment.
    """
    return typer.Argument(metavar="ENV", help=text, autocompletion=complete_environment)


def form_option(default: str = "") -> Any:
    """Make the option ``--form``.

    Args:
        default: What holds without it, where typer can't tell.
    """
    return typer.Option(help=_with_default("Actions are calls of tools, or texts.", default))


def max_turns_option(default: str = "") -> Any:
    """Make the option ``--max-turns``, with the same argument."""
    return typer.Option(min=1, help=_with_default("Actions in an episode, at most.", default))


def temperature_option(default: str = "") -> Any:
    """Make the option ``--temperature``, with the same argument."""
    return typer.Option(min=0, help=_with_default("Of the model's sampling.", default))


def step_timeout_option(default: str = "") -> Any:
    """Make the option ``--step-timeout-s``, with the same argument."""
    text = "Seconds for a reset or a step; then its episode is given up."
    return typer.Option(min=0.001, help=_with_default(text, default))


def field_paths(paths: list[str] | None) -> list[str]:
    """Check what ``--traces-leave-out`` is given."""
    try:
        return [check_field_path(path) for path in paths or ()]
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


def seed_option(default: str = "") -> Any:
    """Make the option ``--seed`` of a command that plays episodes, with the same argument."""
    return typer.Option(min=0, help=_with_default("What the episodes' seeds and the player derive from.", default))


def secret_option(*names: str) -> Any:
    """Make the option that gives a Space a secret.

    Args:
        names: What it is called.
    """
    return typer.Option(
        *names,
        metavar="NAME[=VALUE]",
        help="Secret; without a value it is the one of your variable of that name. May be given again.",
        show_default=False,
    )


def variable_option(*names: str) -> Any:
    """Make the option that sets an environment variable where the environment runs.

    Args:
        names: What it is called.
    """
    return typer.Option(
        *names, metavar="NAME=VALUE", help="Environment variable; may be given again.", show_default=False
    )


def _with_default(text: str, default: str) -> str:
    return f"{text}  [default: {default}]" if default else text


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", envvar=TRUST_VARIABLE, help="Run a Space's code on this machine.")
]
Private = Annotated[bool, typer.Option("--private", help="For you and your organization only.")]

# What is played, by whom and how.
PlayedEnvironment = Annotated[str, environment_argument(PLAYED_TEXT)]
ResetParameters = Annotated[
    list[str] | None,
    typer.Option("--reset", metavar="NAME=VALUE", help="A parameter of each reset, as in difficulty=hard; repeatable."),
]
PlayerKind = Annotated[
    Literal["scripted", "random"] | None,
    typer.Option(
        help="A player without a model: the one that the environment brings along, or a random one.  "
        "[default: scripted, without --model]"
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Address of the environment's server.  [default: a server of its own is started]")
]
LLMEndpoint = Annotated[
    str | None,
    typer.Option(help="Address of the model's OpenAI-compatible server; /v1 is added to one without a path."),
]
LLMPort = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Port of --llm-endpoint, where the address has none.")
]
SystemPrompt = Annotated[str | None, typer.Option(help="The first message of every conversation.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Tokens in one answer of the model, at most.")]
StepTimeoutS = Annotated[float, step_timeout_option()]
Sessions = Annotated[int, typer.Option(min=1, help="Episodes that are played at once.")]
Traces = Annotated[
    bool,
    typer.Option("--traces/--no-traces", help="Record the episodes in the folder, in traces.db; see openenv traces."),
]
TracesLeaveOut = Annotated[
    list[str] | None,
    typer.Option(
        "--traces-leave-out",
        metavar="PATH",
        help="Field that is not recorded, as observation.screenshot; may be given again.",
        show_default=False,
        callback=field_paths,
    ),
]
