"""Extras of this distribution, and the commands that install what they require."""

import shlex
from importlib.metadata import PackageNotFoundError, requires
from typing import TYPE_CHECKING

from openenv._version import PACKAGE_FOLDER

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "openenv-core"


def install_command(extra: str) -> str:
    """Return the command that installs what an extra requires.

    It names what the extra requires and not this distribution: on the package index, that name is another project's.
    """
    try:
        names = [str(requirement) for requirement in requirements_of(extra)]
    except PackageNotFoundError:  # run from a source tree that was not installed
        names = ["-e", f"{PACKAGE_FOLDER.parents[1]}[{extra}]"]
    return shlex.join(["pip", "install", *names])


def requirements_of(extra: str) -> "list[Requirement]":
    """Return what an extra requires beside what is always required, without markers.

    Raises:
        PackageNotFoundError: This distribution is not installed.
    """
    from packaging.requirements import Requirement  # read for errors and for the doctor only

    found = []
    for line in requires(DISTRIBUTION) or ():
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        if marker is not None and not marker.evaluate({"extra": ""}) and marker.evaluate({"extra": extra}):
            found.append(requirement)
    return found
