"""Requirements of an imported project, from its files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openenv.core.documents import read_toml
from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.venv.requirements import read_requirements, requirement_of

__all__ = ["ProjectRequirements", "project_requirements"]


@dataclass(frozen=True)
class ProjectRequirements:
    """Requirements of a project's code.

    Attributes:
        lines: Requirements, as pip takes them: the project itself where it can be installed, else what it needs.
        distribution: The project's name and folder, where it can be installed.
    """

    lines: tuple[str, ...]
    distribution: tuple[str, Path] | None = None


def project_requirements(folder: Path, root: Path) -> ProjectRequirements:
    """Read a project's requirements, from the file nearest to the environment's module in ``root``.

    Raises:
        ConfigurationError: A ``pyproject.toml`` can't be read.
    """
    folders = [each for each in (root, *root.parents) if each.is_relative_to(folder)] or [folder]
    for each in folders:
        name = _distribution(each)
        if name is not None:
            return ProjectRequirements((name,), (name, each))
    for each in folders:
        lines = _listed(each, folder)
        if lines:
            return ProjectRequirements(lines)
    return ProjectRequirements(())


def _distribution(folder: Path) -> str | None:
    """Return the name of the distribution that a folder's ``pyproject.toml`` builds; ``None`` if it builds none."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    document: dict[str, Any] = read_toml(file)
    project = document.get("project")
    name = project.get("name") if isinstance(project, dict) else None
    if not isinstance(name, str):
        return None
    requirement = requirement_of(name)
    return name if requirement is not None and requirement.name == name else None


def _listed(folder: Path, project: Path) -> tuple[str, ...]:
    """Return the requirements of a folder's list, without options of pip and what can't be read.

    No list outside of the project is read: its lines would be copied into the new environment's files.
    """
    try:
        lines = read_requirements(folder, within=project).lines
    except ConfigurationError:
        return ()
    return tuple(str(found) for line in lines if (found := requirement_of(line)) is not None)
