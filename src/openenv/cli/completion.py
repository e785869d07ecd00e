"""What a shell offers for the argument ``ENV`` of a command: the names of the installed environments.

Folders and addresses are left to the shell, which completes files where this offers nothing.
"""

from openenv.auto.discovery import list_environments


def complete_environment(incomplete: str) -> list[str]:
    """Return the names of installed environments that begin like what was typed.

    Args:
        incomplete: What was typed so far.
    """
    return [package.name for package in list_environments() if package.name.startswith(incomplete)]
