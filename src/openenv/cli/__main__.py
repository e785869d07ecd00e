"""The ``openenv`` command itself. A command's module is imported only when that command runs."""

import os
import sys
import traceback
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from openenv.core.exceptions import OpenEnvError


class Command(NamedTuple):
    """Where a command is, and the line that ``openenv --help`` shows for it."""

    target: str
    summary: str


COMMANDS = {
    "init": Command("openenv.cli.init:init", "Make the folder of a new environment."),
    "serve": Command("openenv.cli.serve:serve", "Serve an environment on this machine."),
    "mcp": Command("openenv.cli.mcp:mcp", "Let an agent play an environment over MCP."),
    "play": Command("openenv.cli.play:play", "Play an environment yourself, in the terminal."),
    "collect": Command("openenv.cli.collect:collect", "Play episodes, and keep their conversations to train on."),
    "eval": Command("openenv.cli.eval:evaluate", "Measure how well a model or a player does, with intervals."),
    "train": Command("openenv.cli.train:train", "Train a language model: on examples, then with GRPO."),
    "top": Command("openenv.cli.top:top", "Show what a running server is doing, live."),
    "list": Command("openenv.cli.list:list_known", "List the environments that there are, installed or not."),
    "info": Command("openenv.cli.info:info", "Say what an environment is: actions, reward, an example."),
    "doctor": Command("openenv.cli.doctor:doctor", "Say what this machine can do, and what brings what it can't."),
    "validate": Command("openenv.cli.validate:validate", "Check an environment: its folder, and that it runs."),
    "build": Command("openenv.cli.build:build", "Build the image of an environment."),
    "deploy": Command("openenv.cli.deploy:deploy", "Write what Kubernetes needs to run an environment's servers."),
    "push": Command("openenv.cli.push:push", "Publish an environment's folder, as a Space on the Hub."),
    "pull": Command("openenv.cli.pull:pull", "Get an environment's folder from the Hub."),
    "fork": Command("openenv.cli.fork:fork", "Make a Space of your own from another's."),
}


class CommandGroup(TyperGroup):
    """Knows every command by name and summary; loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the command itself in the place of its stand-in."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Import a command and make it ready to be called."""
    module, _, function = COMMANDS[name].target.partition(":")
    single = _new_app()
    single.command(name)(getattr(import_module(module), function))
    return typer.main.get_command(single)


def build_app() -> typer.Typer:
    """Make the application, with a stand-in for each command."""
    app = _new_app(cls=CommandGroup, no_args_is_help=True)
    app.callback()(_openenv)
    for name, command in COMMANDS.items():
        app.command(name, help=command.summary)(_stand_in)
    return app


def main() -> None:
    """Run the command line; ends the process with its exit status."""
    debugs = os.environ.get("OPENENV_DEBUG") == "1"  # now: a server sets it for itself
    try:
        build_app()(prog_name="openenv")
    except (OpenEnvError, OSError) as error:
        if debugs:
            traceback.print_exception(error)
        typer.echo(f"Error: {error}", err=True)
        sys.exit(1)


def _new_app(**settings: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **settings)


def _openenv() -> None:
    """Make, serve, play, train and check environments."""


def _stand_in() -> None:
    """Never called: ``CommandGroup`` loads the command itself."""


if __name__ == "__main__":
    main()
