"""Probes of Python's packages: OpenEnv's extras, and what an environment requires."""

from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from openenv.doctor.finding import Finding, Status

DISTRIBUTION = "openenv-core"
_USED_FOR = {
    "docker": "containers from Python",
    "eval": "openenv collect and eval",
    "fastmcp": "environments written with FastMCP",
    "gymnasium": "Gymnasium's environments",
    "hub": "push, pull and fork on the Hugging Face Hub",
    "inspect": "evaluation with Inspect",
    "kubernetes": "pods as providers",
    "llm": "rewards by models as judges",
    "ors": "OpenReward's environments",
    "pettingzoo": "PettingZoo's games",
    "postgres": "a journal that servers share",
    "ray": "fleets",
    "reasoning-gym": "Reasoning Gym's tasks",
    "skyrl": "SkyRL's environments",
    "telemetry": "traces",
    "train": "openenv train",
}


def extras() -> list[str]:
    """Return the names of OpenEnv's extras."""
    return sorted({name for _, name in _with_extras()})


def extra(name: str) -> Finding:
    """Look whether what an extra brings is installed."""
    wanted = [requirement for requirement, of in _with_extras() if of == name]
    absent = missing(wanted)
    used_for = _USED_FOR.get(name, "")
    if absent:
        return Finding(f"extra {name}", Status.MISSING, absent, used_for, f'pip install "{DISTRIBUTION}[{name}]"')
    have = ", ".join(f"{requirement.name} {version(requirement.name)}" for requirement in wanted)
    return Finding(f"extra {name}", Status.READY, have, used_for)


def missing(requirements: Iterable[Requirement]) -> str:
    """Say which requirements are not met; nothing where all are."""
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


def _with_extras() -> Iterator[tuple[Requirement, str]]:
    """What the extras require, each with the extra's name."""
    for line in requires(DISTRIBUTION) or ():
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        if marker is None or marker.evaluate({"extra": ""}):  # required without any extra
            continue
        yield from ((requirement, name) for name in _USED_FOR if marker.evaluate({"extra": name}))
