"""The ``openenv`` command, which imports the module of a command when that command runs."""

import json
import sys
from codecs import register_error
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple

import typer

from openenv import __version__
from openenv.cli.groups import GroupOfCommands, command_app, new_app
from openenv.cli.loading import exempt_from_collection

_JSON_ESCAPES = "openenv-json-escapes"


class Command(NamedTuple):
    """Location of a command, and the line that ``openenv --help`` shows for it.

    Attributes:
        target: Module under ``openenv.cli.commands`` and function there, as ``MODULE:FUNCTION``; or an application, for
            a group of commands and for a command that programs run as an application.
        summary: The line.
        heading: Heading that the line stands under.
    """

    target: str
    summary: str
    heading: str = "Commands"


MAKE, RUN, TRAIN, LOOK, FIND, PUBLISH = "Make", "Run", "Train", "Look", "Find", "Publish"

COMMANDS = {
    "init": Command("init:app", "Make the folder of a new environment.", MAKE),
    "import": Command("import_env:import_env", "Make an environment from a project of ORS or verifiers.", MAKE),
    "validate": Command("validate:validate", "Check an environment: its folder, and that it runs.", MAKE),
    "card": Command("card:card", "Measure an environment in five minutes: a page and a badge.", MAKE),
    "conformance": Command("conformance:conformance", "Check a running server against the wires.", MAKE),
    "doctor": Command("doctor:doctor", "Check what this machine can do, and what it lacks.", MAKE),
    "skills": Command("skills:app", "Write a page for coding agents on how this command is used.", MAKE),
    "serve": Command("serve:app", "Serve an environment on this machine.", RUN),
    "play": Command("play:play", "Play an environment yourself, in the terminal or a browser.", RUN),
    "mcp": Command("mcp:mcp", "Let an agent play an environment over MCP.", RUN),
    "top": Command("top:top", "Show what a running server is doing, live.", RUN),
    "collect": Command("collect:app", "Play episodes, and keep their conversations to train on.", TRAIN),
    "train": Command("train:train", "Train a language model: on examples, then with GRPO.", TRAIN),
    "eval": Command("eval:evaluate", "Measure how well a model or a player does, with intervals.", TRAIN),
    "run": Command("eval:evaluate", "Play the tasks of a dataset's environment, and measure the player.", TRAIN),
    "view": Command("view:view", "Look at runs and episodes on record in a browser.", LOOK),
    "traces": Command("traces:app", "Look at the episodes that servers have recorded.", LOOK),
    "list": Command("list:list_known", "List the environments that there are, installed or not.", FIND),
    "info": Command("info:info", "Describe an environment: actions, reward, an example.", FIND),
    "tasks": Command("tasks:tasks", "List the tasks of an environment, show one, or write them to a file.", FIND),
    "env": Command("env.dataset:app", "Look at the environments that a dataset declares, or check them.", FIND),
    "discover": Command("discover:discover", "Find environments for a task, here or in a catalog.", FIND),
    "catalog": Command("catalog:app", "Build a catalog of environments, or look into one.", FIND),
    "build": Command("build:app", "Build the image of an environment.", PUBLISH),
    "push": Command("push:app", "Publish an environment's folder, as a Space on the Hub.", PUBLISH),
    "pull": Command("pull:pull", "Get an environment's folder from the Hub.", PUBLISH),
    "fork": Command("fork:app", "Make a Space of your own from another's.", PUBLISH),
    "deploy": Command("deploy:deploy", "Write what Kubernetes needs to run an environment.", PUBLISH),
}


class CommandGroup(GroupOfCommands):
    """Group of all commands by name and summary, which loads the one that is called."""

    def heading_of(self, name: str) -> str:
        """Return the heading of a command."""
        return COMMANDS[name].heading

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replace the stand-in by the command itself."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Import a command and make it ready to be called."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    with exempt_from_collection():
        function = getattr(import_module(f"openenv.cli.commands.{module}"), attribute)
    return typer.main.get_command(function if isinstance(function, typer.Typer) else command_app(name, function))


def build_app() -> typer.Typer:
    """Make the application, with a stand-in for each command."""
    app = new_app(CommandGroup, no_args_is_help=True, add_completion=True)
    app.callback()(_openenv)
    for name, command in COMMANDS.items():
        app.command(name, help=command.summary)(_stand_in)
    return app


def main() -> None:
    """Run the command line; ends the process with its exit status."""
    _escape_what_output_lacks()
    app(prog_name="openenv")


def _escape_what_output_lacks() -> None:
    """Escape, as JSON does, the characters that the output's encoding lacks, as ASCII lacks ``±``."""
    register_error(_JSON_ESCAPES, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a program that calls this may have put another kind there
            stream.reconfigure(errors=_JSON_ESCAPES)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"openenv {__version__}")
        raise typer.Exit


def _openenv(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Make, serve, play, train and check environments."""


def _stand_in() -> None:
    """Stand for a command, which ``CommandGroup`` loads before anything calls this."""


app = build_app()
"""The whole command line as a Typer application, for other programs."""


if __name__ == "__main__":
    main()
