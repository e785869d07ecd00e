"""Probes of Python's packages: OpenEnv's extras, and an environment's requirements."""

from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from openenv._extras import DISTRIBUTION, install_command, requirements_of
from openenv._mixture import MESSAGE, is_mixed
from openenv._version import PACKAGE_FOLDER, __version__
from openenv.doctor.finding import Finding, Status

OTHER_NAME = "openenv"
"""The distribution without code that requires ours; the public package has the same name."""
_USED_FOR_OTHER_NAME = "packages that were written for the public OpenEnv"
_USED_FOR = {
    "aca": "sandboxes of Azure Container Apps as providers",
    "core": "environments that were written for the public OpenEnv",
    "daytona": "sandboxes of Daytona as providers",
    "docker": "containers from Python",
    "eval": "openenv collect and eval",
    "fastmcp": "environments written with FastMCP",
    "gradio": "pages that environments make with Gradio",
    "gymnasium": "Gymnasium's environments",
    "hub": "push, pull and fork on the Hugging Face Hub",
    "inspect": "evaluation with Inspect",
    "kubernetes": "pods as providers",
    "llm": "rewards by models as judges",
    "modal": "sandboxes of Modal as providers",
    "novita": "sandboxes of Novita as providers",
    "openspiel": "OpenSpiel's games",
    "ors": "OpenReward's environments",
    "pettingzoo": "PettingZoo's games",
    "pictures": "pictures of recorded episodes in the terminal",
    "postgres": "a journal and traces that servers share",
    "ray": "fleets",
    "reasoning-gym": "Reasoning Gym's tasks",
    "skyrl": "SkyRL's environments",
    "telemetry": "traces",
    "train": "openenv train",
}


def openenv() -> Finding:
    """Check whether this OpenEnv is alone in its folder, and has both of its names."""
    if is_mixed(PACKAGE_FOLDER):
        message, _, remedy = MESSAGE.format(folder=PACKAGE_FOLDER).partition(": ")
        return Finding("openenv", Status.MISSING, message, "everything", remedy)
    try:
        other = distribution(OTHER_NAME)
    except PackageNotFoundError:
        detail = f"{DISTRIBUTION} {__version__}; a package that requires {OTHER_NAME} would install the public OpenEnv"
        return Finding("openenv", Status.READY, detail, _USED_FOR_OTHER_NAME, "pip install ./distributions/openenv")
    if not _requires_ours(other):
        detail = f"the public OpenEnv ({OTHER_NAME} {other.version}) is installed beside {DISTRIBUTION} {__version__}"
        return Finding("openenv", Status.MISSING, detail, "everything", f"pip uninstall {OTHER_NAME}")
    return Finding("openenv", Status.READY, f"{DISTRIBUTION} and {OTHER_NAME} {__version__}", "everything")


def _requires_ours(other: Distribution) -> bool:
    return any(canonicalize_name(Requirement(line).name) == DISTRIBUTION for line in other.requires or ())


def extras() -> list[str]:
    """Return the names of OpenEnv's extras, without those that install nothing."""
    return sorted(_USED_FOR)


def extra(name: str) -> Finding:
    """Check whether the packages of an extra are installed."""
    wanted = requirements_of(name)
    absent = missing(wanted)
    used_for = _USED_FOR[name]
    if absent:
        return Finding(f"extra {name}", Status.MISSING, absent, used_for, install_command(name))
    have = ", ".join(f"{requirement.name} {version(requirement.name)}" for requirement in wanted)
    return Finding(f"extra {name}", Status.READY, have, used_for)


def missing(requirements: Iterable[Requirement]) -> str:
    """Describe the requirements that are not met; nothing where all are."""
    return "; ".join(fault for requirement in requirements if (fault := _missing(requirement)))


def _missing(requirement: Requirement) -> str:
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return ""
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if requirement.specifier.contains(installed, prereleases=True):
        return ""
    return f"{requirement.name} is {installed}, expected {requirement.specifier}"
