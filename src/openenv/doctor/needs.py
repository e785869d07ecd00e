"""Needs of an environment of the machine that serves it."""

from functools import partial
from pathlib import Path

from packaging.requirements import Requirement

from openenv.auto.package import EnvironmentPackage
from openenv.core.documents import read_text
from openenv.core.providers.venv.requirements import Requirements, read_requirements, requirement_of
from openenv.doctor.checkup import Probe, probes
from openenv.doctor.finding import Finding, Status
from openenv.doctor.packages import missing

_SANDBOX = "openenv.core.sandbox"
_BROWSER = "playwright"


def probes_for(package: EnvironmentPackage) -> dict[str, Probe]:
    """Return the probes of an environment's needs: its packages, OpenEnv's extras, a sandbox, a browser.

    Raises:
        ConfigurationError: The requirements in its folder can't be read.
    """
    known = probes()
    requirements = read_requirements(package.folder)
    needed: dict[str, Probe] = {"packages": partial(packages_of, package.folder, requirements)}
    needed |= {name: known[name] for extra in sorted(requirements.extras) if (name := f"extra {extra}") in known}
    if any(each.name == _BROWSER for each in _named(requirements)):
        needed["browser"] = known["browser"]
    if _imports(package.folder, _SANDBOX):
        needed["sandbox"] = known["sandbox"]
    return needed


def packages_of(folder: Path, requirements: Requirements) -> Finding:
    """Check whether an environment's requirements are installed."""
    lines = requirements.lines
    absent = missing(_named(requirements))
    if absent:
        remedy = f"{requirements.install_command()}  # or: openenv serve {folder} --venv"
        return Finding("packages", Status.MISSING, absent, "its own code", remedy)
    detail = f"all that it requires: {', '.join(lines)}" if lines else "it requires none but OpenEnv"
    return Finding("packages", Status.READY, detail, "its own code")


def _named(requirements: Requirements) -> list[Requirement]:
    """Return the requirements that have a name, without options and paths."""
    return [found for line in requirements.lines if (found := requirement_of(line)) is not None]


def _imports(folder: Path, module: str) -> bool:
    """Return whether a file of the environment, its tests aside, names a module."""
    files = [file for file in folder.rglob("*.py") if "tests" not in file.relative_to(folder).parts]
    return any(module in read_text(file) for file in files if file.is_file())
