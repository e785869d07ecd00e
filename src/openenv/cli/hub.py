"""Terminals in the commands for the Hub."""

import sys


def is_interactive() -> bool:
    """Return whether a person sees what is printed, and can type an answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show_progress_to_people_only() -> None:
    """Keep the library's progress bars out of files and pipes."""
    from openenv.hub.library import disable_progress_bars  # takes long

    if not sys.stderr.isatty():
        disable_progress_bars()
