"""What the commands for the Hub share: the way to it, and whether code from there may run here."""

import sys
from urllib.parse import urlsplit

import typer

from openenv.auto.installing import TRUST_VARIABLE
from openenv.auto.names import space_id
from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.spaces import space_url
from openenv.hub.names import RepoName, is_hub_address, read_repo_name


def is_interactive() -> bool:
    """Say whether a person sees what is printed, and can type an answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show_progress_to_people_only() -> None:
    """Keep the library's progress bars out of files and pipes."""
    from openenv.hub.library import disable_progress_bars  # takes long

    if not sys.stderr.isatty():
        disable_progress_bars()


def space_of(target: str) -> RepoName | None:
    """Say which Space a command's target is; ``None`` where it is anything else, such as a folder.

    Example:
        >>> space_of("openenv/echo-env"), space_of("./my_env"), space_of("http://localhost:8000")
        (RepoName(id='openenv/echo-env', kind='space', revision=None), None, None)
    """
    if is_hub_address(target):
        name = read_repo_name(target)
        return name if name.kind == "space" else None
    return read_repo_name(target) if space_id(target) == target else None


def local_target(target: str, *, trusted: bool) -> str:
    """Bring a command's target to this machine, if it is a Space whose code may run here.

    Args:
        target: What the command was given; other than a Space it is returned as it is.
        trusted: Whether the user has said that the Space's code may run here; else a person is asked.

    Returns:
        The folder that the Space was downloaded to.

    Raises:
        ConfigurationError: Nobody has said that it may.
        HubError: There is no such Space, or the Hub can't be reached.
    """
    space = space_of(target)
    if space is None:
        return target
    if not trusted and not (is_interactive() and _may_run(space)):
        where = "" if urlsplit(target).scheme else f"There is no folder {target} here. "
        raise ConfigurationError(
            f"{where}To run the code of the Space {space.id} on this machine, say that you trust its author, with "
            f"--trust-remote-code or {TRUST_VARIABLE}=1. To look at it first: openenv pull {space.id}. To play where "
            f"the Hub runs it: openenv play {space_url(space.id)}"
        )
    from openenv.hub.downloading import download_space  # with its library, which takes long

    show_progress_to_people_only()
    return str(download_space(target))


def _may_run(space: RepoName) -> bool:
    return typer.confirm(f"Run the code of the Space {space.id} on this machine? Whoever made it decides what it does.")
