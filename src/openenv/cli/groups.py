"""Groups of commands, such as ``openenv traces``."""

import typer


def command_group(summary: str) -> typer.Typer:
    """Return an application for commands that stand below another one.

    Args:
        summary: What the help says of the group.
    """
    return typer.Typer(
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
