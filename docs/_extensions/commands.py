"""The directives ``openenv-commands``, with the help of every command, and ``openenv-settings``, with a table."""

from collections.abc import Iterator
from pkgutil import resolve_name

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer import Context

from openenv.cli.__main__ import COMMANDS, load_command
from openenv.cli.setting_options import described, fields_of, options_of
from openenv.train.settings.config import TrainConfig, described_settings

HELP_WIDTH = 96


class _Generated(SphinxDirective):
    """Directive that stands for lines of Markdown."""

    def parse_lines(self, lines: list[str], source: str) -> list[nodes.Node]:
        """Return the nodes of lines of Markdown."""
        container = nodes.section()
        container.document = self.state.document
        self.state.nested_parse(StringList(lines, source=source), self.content_offset, container, True)
        return container.children


class Commands(_Generated):
    """A section for each heading of ``openenv --help``, with one for each command, and its help."""

    def run(self) -> list[nodes.Node]:
        """Build the sections from the commands themselves."""
        lines: list[str] = []
        heading = ""
        for name, command in COMMANDS.items():
            if command.heading != heading:
                heading = command.heading
                lines += [f"## {heading}", ""]
            lines += [f"### openenv {name}", "", command.summary, "", "```text", *help_of(name), "```", ""]
            for part in getattr(load_command(name), "commands", {}):
                lines += [f"#### openenv {name} {part}", "", "```text", *help_of(name, part), "```", ""]
        return self.parse_lines(lines, "openenv --help")


class Settings(_Generated):
    """Table of the settings of a class, which is named as ``MODULE:CLASS``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build the table from the fields of the class."""
        return self.parse_lines(list(table_of(resolve_name(self.arguments[0]))), self.arguments[0])


def help_of(name: str, part: str = "") -> list[str]:
    """Return the lines that ``openenv NAME PART --help`` prints."""
    command = load_command(name)
    if part:
        command = command.commands[part]
        name = f"{name} {part}"
    settings = {**command.context_settings, "max_content_width": HELP_WIDTH, "terminal_width": HELP_WIDTH}
    context = Context(command, info_name=f"openenv {name}", **settings)
    return str(command.get_help(context)).splitlines()


def table_of(settings: type) -> Iterator[str]:
    """Iterate over the lines of the table of a class: each field, its option, its default and its description."""
    texts = described_settings() if settings is TrainConfig else {}
    options = {option.field: f"`{option.name}`" for option in options_of(settings) if not option.section}
    yield "| Setting | Option | Default | Description |"
    yield "|---|---|---|---|"
    for name, field in fields_of(settings).items():
        text, default = described(field, texts.get(name, field.description or ""))
        cells = [f"`{name}`", options.get(name, ""), default, text]
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("openenv-commands", Commands)
    app.add_directive("openenv-settings", Settings)
    return {"parallel_read_safe": True}
