"""Extras of this distribution, and the commands that install their requirements."""

import shlex
from importlib.metadata import PackageNotFoundError, requires
from typing import TYPE_CHECKING

from openenv._version import PACKAGE_FOLDER

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "openenv-core"


def install_command(extra: str) -> str:
    """Return the command that installs the requirements of an extra.

    It names these requirements and not this distribution: on the package index, that name is another project's.
    """
    try:
        names = [str(requirement) for requirement in requirements_of(extra)]
    except PackageNotFoundError:  # run from a source tree that was not installed
        names = ["-e", f"{PACKAGE_FOLDER.parents[1]}[{extra}]"]
    return shlex.join(["pip", "install", *names])


def requirements_of(extra: str) -> "list[Requirement]":
    """Return the requirements of an extra beside those that are always required, without markers.

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
