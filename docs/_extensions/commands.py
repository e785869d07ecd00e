"""The directive ``openenv-commands``: what ``openenv COMMAND --help`` prints, for every command."""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer import Context

from openenv.cli.__main__ import COMMANDS, load_command

HELP_WIDTH = 96


class Commands(SphinxDirective):
    """One section for each command, with its help."""

    def run(self) -> list[nodes.Node]:
        """Build the sections from the commands themselves."""
        lines: list[str] = []
        for name, command in COMMANDS.items():
            lines += [f"## openenv {name}", "", command.summary, "", "```text", *help_of(name), "```", ""]
            for part in getattr(load_command(name), "commands", {}):
                lines += [f"### openenv {name} {part}", "", "```text", *help_of(name, part), "```", ""]
        container = nodes.section()
        container.document = self.state.document
        self.state.nested_parse(StringList(lines, source="openenv --help"), self.content_offset, container, True)
        return container.children


def help_of(name: str, part: str = "") -> list[str]:
    """Return the lines that ``openenv NAME PART --help`` prints."""
    command = load_command(name)
    if part:
        command = command.commands[part]
        name = f"{name} {part}"
    settings = {**command.context_settings, "max_content_width": HELP_WIDTH, "terminal_width": HELP_WIDTH}
    context = Context(command, info_name=f"openenv {name}", **settings)
    return str(command.get_help(context)).splitlines()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("openenv-commands", Commands)
    return {"parallel_read_safe": True}
