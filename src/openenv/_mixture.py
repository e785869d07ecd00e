"""Warnings about the public package where this one is expected.

Both packages are called ``openenv``; installed into one folder, each overwrites files of the other, and of two folders
the first on ``sys.path`` is imported.
"""

import warnings
from functools import cache
from pathlib import Path

FOREIGN_FILE = Path("cli", "_cli_utils.py")
"""A file that every release of the public package has in its folder ``openenv``, and none of ours."""

MESSAGE = (
    "The folder {folder} holds files of two packages, this OpenEnv and the public one, which overwrite each other: "
    "`pip uninstall --yes openenv openenv-core`, remove what is left of the folder, and install this one again, under "
    "both names (docs/install.md)."
)

SHADOW_MESSAGE = (
    "`import openenv` finds the public package in {used}, and not this OpenEnv in {unused}, which comes later on "
    "sys.path: `pip uninstall --yes openenv` where the public one was installed, and install this one under both names "
    "(docs/install.md)."
)

REMAINS_MESSAGE = (
    "The folder {folder} has a part of this OpenEnv only: the public package, which had overwritten files of it, was "
    "uninstalled with them. `pip uninstall --yes openenv openenv-core`, remove what is left of the folder, and "
    "install this one again, under both names (docs/install.md)."
)


def is_mixed(folder: Path) -> bool:
    """Return whether the folder of the package ``openenv`` has the public package, too, installed before or after."""
    return (folder / FOREIGN_FILE).exists()


@cache
def warn_of_mixture(folder: Path) -> None:
    """Warn once where the folder of the package ``openenv`` holds files of the public package too."""
    if is_mixed(folder):
        warnings.warn(MESSAGE.format(folder=folder), RuntimeWarning, stacklevel=2)


@cache
def warn_of_shadow(used: Path, unused: Path) -> None:
    """Warn once where the public package is imported and this one is not."""
    warnings.warn(SHADOW_MESSAGE.format(used=used, unused=unused), RuntimeWarning, stacklevel=2)


@cache
def warn_of_remains(folder: Path) -> None:
    """Warn once where the folder of the package ``openenv`` has lost the files that both packages have."""
    warnings.warn(REMAINS_MESSAGE.format(folder=folder), RuntimeWarning, stacklevel=2)
