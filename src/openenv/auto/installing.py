"""Code of another author, once the user trusts it: a package, or the package or folder of a Space."""

import importlib
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from openenv._extras import DISTRIBUTION
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, ProviderError
from openenv.core.providers.spaces import space_repository, space_url
from openenv.core.providers.venv.installer import NO_PUBLIC_PACKAGE, find_uv, has_pip, run_installer, write_lines
from openenv.hub.names import read_repo_name

TRUST_VARIABLE = "OPENENV_TRUST_REMOTE_CODE"
"""Variable that trusts every Space whose package is requested, where it is 1, true or yes."""


def install_space(repo_id: str, *, trusted: bool = False) -> None:
    """Install a Space's package into this Python environment, with what it depends on but for OpenEnv itself.

    Args:
        repo_id: The Space, as ``OWNER/NAME``.
        trusted: Whether its code may be installed and run; else ``OPENENV_TRUST_REMOTE_CODE`` decides, or the user at
            the terminal.

    Raises:
        ConfigurationError: It may not.
        ProviderError: The installation failed; the message has the end of the output of uv or pip.
    """
    repository = space_repository(repo_id)
    if not is_trusted(repository, trusted=trusted):
        raise ConfigurationError(
            f"The package of {repo_id} is not installed, and installing it runs code from {repository}. If you trust "
            f"that, give trust_remote_code=True or set {TRUST_VARIABLE}=1; else use skip_install=True, for actions and "
            "observations as dicts."
        )
    _install(repository, f"Installing the package of {repo_id}")


def install_package(requirement: str, *, trusted: bool = False) -> None:
    """Install a package into this Python environment, with what it depends on but for OpenEnv itself.

    Args:
        requirement: The package as pip takes it, as in ``openenv-wordle>=0.3``.
        trusted: As for ``install_space``.

    Raises:
        ConfigurationError: Its code is not trusted.
        ProviderError: The installation failed; the message has the end of the output of uv or pip.
    """
    if not is_trusted(f"the package {requirement}", trusted=trusted):
        raise ConfigurationError(
            f"The package {requirement} is not installed, and installing it runs its code. If you trust its author, "
            f"give trust_remote_code=True, --trust-remote-code, or set {TRUST_VARIABLE}=1; or install it yourself."
        )
    _install(requirement, f"Installing {requirement}")


def is_trusted(source: str, *, trusted: bool = False) -> bool:
    """Return whether code from elsewhere may run here: by an argument, by the variable, or by the user at the terminal.

    Args:
        source: Where the code is from, as the user is shown it.
        trusted: Whether it is declared to be trusted.
    """
    return trusted or _is_trusted_by_variable() or _is_trusted_by_hand(source)


def _install(requirement: str, doing: str) -> None:
    with TemporaryDirectory(prefix="openenv-install-") as scratch:
        run_installer(_command(requirement, Path(scratch)), doing)
    importlib.invalidate_caches()


def downloaded_space(space: str, *, trusted: bool = False) -> Path:
    """Download a Space whose code may run on this machine.

    Args:
        space: ``OWNER/NAME``, or the address of its page.
        trusted: Whether its code may run here; else ``OPENENV_TRUST_REMOTE_CODE`` decides, or the user at the
            terminal.

    Raises:
        EnvironmentNotFoundError: It may not.
        HubError: There is no such Space, or the Hub can't be reached.
    """
    name = read_repo_name(space)
    if not is_trusted(name.id, trusted=trusted):
        missing = "" if "://" in space else f"There is no folder {space} here. "
        raise EnvironmentNotFoundError(
            f"{missing}To run the code of the Space {name.id} on this machine, declare that you trust its author, with "
            f"{TRUST_VARIABLE}=1 or, for a command that has it, --trust-remote-code. To look at it first: openenv pull "
            f"{name.id}. To play where the Hub runs it: openenv play {space_url(name.id)}"
        )
    from openenv.hub.downloading import download_space  # with its library, which takes long
    from openenv.hub.library import disable_progress_bars

    if not sys.stderr.isatty():  # files and pipes
        disable_progress_bars()
    return download_space(space)


def _is_trusted_by_variable() -> bool:
    return os.environ.get(TRUST_VARIABLE, "").lower() in ("1", "true", "yes")


def _is_trusted_by_hand(source: str) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    # Not input(), which prints on the standard output, wherever that goes.
    sys.stderr.write(f"This installs and runs code from {source}. Do you trust it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _command(requirement: str, scratch: Path) -> list[str]:
    """Return the command, which leaves the OpenEnv that runs here as it is, whichever one the package requires."""
    ours = f"{DISTRIBUTION}=={version(DISTRIBUTION)}"
    uv = find_uv()
    if uv is not None:
        overrides = write_lines(scratch / "overrides.txt", [ours, NO_PUBLIC_PACKAGE])
        return [uv, "pip", "install", "--python", sys.executable, "--override", overrides, requirement]
    if not has_pip():
        raise ProviderError("A package is installed by uv or pip, and neither is there: pip install uv")
    constraints = write_lines(scratch / "constraints.txt", [ours, _other_name()])
    return [sys.executable, "-m", "pip", "install", "-c", constraints, requirement]


def _other_name() -> str:
    """Constrain the distribution ``openenv``: to ours, which has no code, where that is installed, else to none."""
    try:
        installed = version("openenv")
    except PackageNotFoundError:
        return "openenv<0"
    return f"openenv=={installed}"
