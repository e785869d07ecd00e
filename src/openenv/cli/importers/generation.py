"""The folder of an environment that plays an environment of another library's project."""

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from openenv._version import __version__
from openenv.cli import scaffold
from openenv.cli.importers.base import DetectedEnvironment
from openenv.cli.importers.projects import Project
from openenv.cli.importers.requirements import ProjectRequirements, project_requirements

__all__ = ["ProjectImporter"]

# Folder of the project's wheel in wheels/. The Dockerfile installs it by its file: of a name, pip would choose the
# highest version, which the index may have from another author.
_WHEEL_FOLDER = "project"


@dataclass(frozen=True)
class _Library:
    """Properties of the library that a project is written for.

    Attributes:
        title: Its name for people.
        requirement: What the environment needs beside the project.
        page: Address of its page in our documentation, without the beginning.
    """

    title: str
    requirement: str
    page: str


_LIBRARIES: dict[str, _Library] = {
    "ors": _Library("the Open Reward Standard", "openenv-core[ors]", "ors.html"),
    "verifiers": _Library("verifiers", "openenv-core", "from-verifiers.html"),
}


class ProjectImporter:
    """Importer of the environments of one library, which are played by the project's own code from where it is."""

    source_type: str

    def detect(self, source: Path) -> list[DetectedEnvironment]:
        """Return the environments that a project's folder defines, by its source alone."""
        return [each for each in Project(source.resolve()).environments if each.source_type == self.source_type]

    def generate(self, *, source: Path, destination: Path, env_name: str, detected: DetectedEnvironment) -> None:
        """Write the folder of an environment that plays one of a project.

        Args:
            source: Folder of the project, which the new one depends on.
            destination: The new folder.
            env_name: The new environment's name.
            detected: The project's environment.

        Raises:
            ConfigurationError: The project's ``pyproject.toml`` can't be read.
        """
        requirements = project_requirements(source.resolve(), detected.root)
        values = {**scaffold.common_values(env_name), **_values(destination, detected, requirements)}
        scaffold.write_environment(("imported", f"imported_{self.source_type}"), destination, values)


def _values(folder: Path, environment: DetectedEnvironment, requirements: ProjectRequirements) -> dict[str, str]:
    library = _LIBRARIES[environment.source_type]
    needed = [f"{library.requirement}>={__version__}", *requirements.lines]
    default = f"An environment of {library.title}: {environment.qualified_name}."
    description = environment.description if environment.description.isprintable() else ""
    return {
        "root": repr(os.path.relpath(environment.root, folder.resolve())),
        "reference": repr(environment.qualified_name),
        "shown_reference": environment.qualified_name,
        "library": library.title,
        "plain_description": description or default,
        "manifest_player": "",
        "manifest_validation": "",
        **scaffold.requirement_values(needed),
        "sources": _sources(folder, requirements),
        "project_path": _project_path(folder, requirements),
        "project_wheel": f" {_WHEEL_FOLDER}/*.whl" if requirements.distribution else "",
        "image_note": _image_note(folder, requirements),
    }


def _project_path(folder: Path, requirements: ProjectRequirements) -> str:
    """Return the project's path for a shell, with a space behind it; empty where the project can't be installed.

    A command that installs the environment names the project by its path: pip would look for its name in the index,
    where the project of another author may have it.
    """
    if requirements.distribution is None:
        return ""
    _, project = requirements.distribution
    return f"{shlex.quote(os.path.relpath(project, folder.resolve()))} "


def _sources(folder: Path, requirements: ProjectRequirements) -> str:
    """Return the part of ``pyproject.toml`` with which uv finds the project."""
    if requirements.distribution is None:
        return ""
    name, project = requirements.distribution
    path = _quoted(os.path.relpath(project, folder.resolve()))
    return f"\n[tool.uv.sources]\n{_quoted(name)} = {{ path = {path}, editable = true }}\n"


def _image_note(folder: Path, requirements: ProjectRequirements) -> str:
    if requirements.distribution is None:
        return (
            "The project has no `pyproject.toml`, so that it can't be installed: its folder has to stay where it is,\n"
            "and an image of this environment would lack it. Give it one, and import it once more."
        )
    path = _project_path(folder, requirements).strip()
    return (
        "An image has no such folder beside it; it installs the project from a wheel:\n\n"
        f"```bash\npip wheel --no-deps --wheel-dir wheels/{_WHEEL_FOLDER} {path}\nopenenv build .\n```"
    )


def _quoted(value: object) -> str:
    """Write a text or a list of texts as YAML, TOML and JSON all read it."""
    return json.dumps(value, ensure_ascii=False)
