"""Typer applications: groups of commands, such as ``openenv traces``, and single commands that programs run."""

import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from openenv.core.exceptions import OpenEnvError

_COLUMN = 26
"""Longest name of an option beside its help; a longer one has a line of its own."""
_PLACEHOLDER = re.compile(r"<(?:list\[)?([^<>\]]+?)(?: range|\])?>")
"""Types and choices as Typer names them, also of options that are repeatable or have bounds."""
_TYPES = {"str": "TEXT", "int": "N", "float": "NUMBER", "file": "FILE", "dir": "FOLDER"}
"""Placeholders by type. What is not in capitals, as a choice is, is typed as it is shown."""
_WHOLE_NUMBER = re.compile(r"(?<=default: )(\d+)\.0$")
_BOUNDS = re.compile(r"x>=(?P<least>.+)|(?P<low>.+)<=x<=(?P<high>.+)")
_OBVIOUS = ("x>=0", "x>=1")
_WHOLE_DETAIL = 40
"""Longest detail of an option that is not broken over two lines."""
_NO_BREAK, _NO_BREAK_SPACE = "\N{NON-BREAKING HYPHEN}", "\N{NO-BREAK SPACE}"
_HELP_OPTIONS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class RefusalError(OpenEnvError):
    """Error of a command that got no environment, or one that it does not take; it ends with status 2."""


class ReportedErrors:
    """Commands that end on an error with its message, in a terminal and in programs that run them.

    The status is 2 where the target is none, else 1.
    """

    def main(self, *args: Any, standalone_mode: bool = True, **settings: Any) -> Any:
        """Run the command as Typer's ``main`` does; without ``standalone_mode`` errors are raised."""
        debugs = os.environ.get("OPENENV_DEBUG") == "1"  # now: a server sets it for itself
        variables = os.environ.copy()  # those that a command sets are its own, and not of the next one in a program
        try:
            return super().main(*args, standalone_mode=standalone_mode, **settings)  # type: ignore[misc]
        except (OpenEnvError, OSError) as error:
            if not standalone_mode:
                raise
            if debugs:
                traceback.print_exception(error)
            typer.echo(f"Error: {error}", err=True)
            sys.exit(2 if isinstance(error, RefusalError) else 1)
        finally:
            for name in os.environ.keys() - variables:
                del os.environ[name]
            os.environ.update(variables)


class GroupOfCommands(ReportedErrors, TyperGroup):
    """Group of commands, such as ``openenv traces``, whose help has a whole sentence for each."""

    def heading_of(self, name: str) -> str:
        """Return the heading of a command in the help."""
        return "Commands"

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first sentence of its help, under its heading."""
        headings: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, self.commands))
        for name, command in self.commands.items():
            if not command.hidden:
                headings.setdefault(self.heading_of(name), []).append((name.ljust(width), summary_of(command)))
        for heading, lines in headings.items():
            with formatter.section(heading):
                formatter.write_dl(lines)


def summary_of(command: Any) -> str:
    r"""Return the first sentence of a command's help.

    Example:
        >>> summary_of(TyperCommand("add", help="Write the page, and link it. Nothing else\n\nis written."))
        'Write the page, and link it.'
    """
    text = " ".join((command.short_help or command.help or "").split())
    sentence, ends, _ = text.partition(". ")
    return f"{sentence}." if ends else text


class GroupedCommand(ReportedErrors, TyperCommand):
    """A command whose help lists the options that have a ``rich_help_panel`` under that heading."""

    def get_help(self, ctx: Any) -> str:
        """Return the help, in which no address, name of an option or short detail is broken."""
        return str(super().get_help(ctx)).replace(_NO_BREAK, "-").replace(_NO_BREAK_SPACE, " ")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage, without the braces that Typer sets around arguments that are required."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the options without a heading, and those of each heading in the order of the code."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                default = "Arguments" if is_argument else "Options"
                names = record[0].partition(" <")[0] if is_argument else _with_placeholder(record[0])
                help_text = record[1].replace("  [required]", "") if is_argument else record[1]  # the usage shows it
                lines = groups.setdefault(getattr(parameter, "rich_help_panel", None) or default, [])
                lines.append((names, _with_details_joined(help_text).replace("-", _NO_BREAK)))
        width = min(_COLUMN, max(len(names) for lines in groups.values() for names, _ in lines))
        for heading in sorted(groups, key=_order_of_heading):
            with formatter.section(heading):
                formatter.write_dl([(names.ljust(width), text) for names, text in groups[heading]], col_max=_COLUMN)


def _with_placeholder(names: str) -> str:
    """Return the names of an option with the placeholder of its value, or with its choices."""
    return _PLACEHOLDER.sub(lambda found: _TYPES.get(found[1], found[1]), names)


def _with_details_joined(text: str) -> str:
    """Return the help of an option with its default, its bounds and its variable, in one pair of brackets."""
    description, begins, details = text.replace("]  [", "; ").partition("  [")
    parts = [part for part in details.removesuffix("]").split("; ") if part not in _OBVIOUS]
    parts.sort(key=lambda part: part.startswith("env var: "))
    return f"{description}  [{'; '.join(map(_detail, parts))}]" if begins and parts else description


def _detail(part: str) -> str:
    """Return a detail of an option in words; a short one is not broken at a space."""
    if bounds := _BOUNDS.fullmatch(part):
        words = f"at least {bounds['least']}" if bounds["least"] else f"from {bounds['low']} to {bounds['high']}"
    else:
        words = "default: this folder" if part == "default: ." else _WHOLE_NUMBER.sub(r"\1", part)
    return words.replace(" ", _NO_BREAK_SPACE) if len(words) <= _WHOLE_DETAIL else words


def _order_of_heading(heading: str) -> int:
    """Return the order of a heading: what every command has comes before a command's headings."""
    return {"Arguments": 0, "Options": 1}.get(heading, 2)


class Application(typer.Typer):
    """Application of Typer, the help of whose commands has headings."""

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any) -> Any:
        """Register a command, as Typer does."""
        return super().command(name, cls=cls or GroupedCommand, **settings)


def new_app(
    cls: type[GroupOfCommands] = GroupOfCommands, *, add_completion: bool = False, **settings: Any
) -> typer.Typer:
    """Return an application that shows its help and its errors as plain text."""
    return Application(
        cls=cls,
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=_HELP_OPTIONS,
        **settings,
    )


def command_group(summary: str) -> typer.Typer:
    """Return an application for commands that stand below another one."""
    return new_app(help=summary, no_args_is_help=True)


def command_app(name: str, function: Callable[..., None]) -> typer.Typer:
    """Return an application that is a single command."""
    app = new_app()
    app.command(name, context_settings=_HELP_OPTIONS)(function)
    return app
