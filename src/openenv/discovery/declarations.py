"""Declarations in an environment's files: openenv.yaml, pyproject.toml, README.md and discovery.json."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from packaging.licenses import InvalidLicenseExpression
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import Field, field_validator

from openenv.core.documents import DocumentError, parse_json, parse_toml, parse_yaml
from openenv.discovery.errors import DeclarationError
from openenv.discovery.models import (
    UNCLEAR_LICENSES,
    License,
    ProfileModel,
    Queries,
    RelativePath,
    Text,
    check_tool_names,
    checked_license,
)
from openenv.discovery.repository import Repository

_FRONT_MATTER = re.compile(r"---\r?\n(.*?)^---\r?$", re.DOTALL | re.MULTILINE)


class ToolDeclaration(ProfileModel):
    """Tools that an environment has for agents, and the file that shows it."""

    protocol: Text
    names: list[Text] = Field(min_length=1, max_length=256)
    source: RelativePath

    @field_validator("names")
    @classmethod
    def _are_tools(cls, names: list[str]) -> list[str]:
        if len(set(names)) != len(names):
            raise ValueError("a tool stands twice")
        check_tool_names(names)
        return names


class Declaration(ProfileModel):
    """Content of ``discovery.json``, which no other file has."""

    description: Text | None = None
    tags: list[Text] = Field(default_factory=list)
    representative_queries: Queries = Field(default_factory=list)
    license: License | None = None
    license_source: RelativePath | None = None
    artifact_availability: Literal["resolvable", "external", "unknown"] = "resolvable"
    agent_tools: ToolDeclaration | None = None


class Found(NamedTuple):
    """Value with the file and key that declare it."""

    value: Any
    origin: str


class FoundLicense(NamedTuple):
    """License, with the file that declares it; ``conflict`` where two files declare different ones."""

    name: str
    origin: str | None = None
    conflict: bool = False


@dataclass(frozen=True)
class EnvironmentFiles:
    """The parsed files of an environment's folder.

    Attributes:
        path: The folder.
        manifest: ``openenv.yaml``.
        project: The table ``project`` of ``pyproject.toml``.
        readme: The front matter of ``README.md``.
        declaration: ``discovery.json``.
    """

    path: str
    manifest: dict[str, Any]
    project: dict[str, Any] = field(default_factory=dict)
    readme: dict[str, Any] = field(default_factory=dict)
    declaration: Declaration = field(default_factory=Declaration)

    @classmethod
    def read(cls, repository: Repository, path: str) -> "EnvironmentFiles":
        """Read the files of a folder.

        Raises:
            DeclarationError: A file can't be read.
            pydantic.ValidationError: ``discovery.json`` has a value that it may not have.
        """
        manifest = _mapping(parse_yaml, repository.required(f"{path}/openenv.yaml"), f"{path}/openenv.yaml")
        project = read_project(repository, f"{path}/pyproject.toml")
        readme = _read_front_matter(repository, f"{path}/README.md")
        declared = repository.read(f"{path}/discovery.json")
        if declared is None:
            return cls(path, manifest, project, readme)
        values = _mapping(parse_json, declared, f"{path}/discovery.json")
        return cls(path, manifest, project, readme, Declaration.model_validate(values))

    def name(self) -> Found:
        """Return the environment's name."""
        return self._first("name", self._manifest, self._project)

    def description(self) -> Found:
        """Return the environment's description."""
        own = self.declaration.model_dump(exclude_none=True), f"{self.path}/discovery.json#"
        readme = self.readme, f"{self.path}/README.md#"
        return self._first("description", own, self._manifest, self._project, readme)

    def tags(self) -> list[str]:
        """Return the tags, sorted."""
        tags = self.declaration.tags or self.readme.get("tags", [])
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise DeclarationError("invalid_metadata", f"{self.path}: expected a list of texts as tags.")
        return sorted(set(tags))

    def requirement(self) -> str | None:
        """Return the requirement of OpenEnv under its public name."""
        dependencies = self.project.get("dependencies", [])
        try:
            found = [text for text in dependencies if canonicalize_name(Requirement(text).name) == "openenv"]
        except (InvalidRequirement, TypeError) as error:
            fault = f"{self.path}/pyproject.toml: expected a list of requirements as dependencies."
            raise DeclarationError("invalid_metadata", fault) from error
        if len(found) > 1:
            fault = f"{self.path}/pyproject.toml requires openenv {len(found)} times; leave one."
            raise DeclarationError("invalid_metadata", fault)
        return found[0] if found else None

    def license(self, repository: Repository, root_project: dict[str, Any]) -> FoundLicense:
        """Return the license: of ``discovery.json``, else of the package and the README, else of the repository."""
        if self.declaration.license is not None:
            origin = self.declaration.license_source or f"{self.path}/discovery.json"
            repository.required(origin)
            return FoundLicense(self.declaration.license, origin)
        declared = [
            (_license_of(self.project.get("license")), f"{self.path}/pyproject.toml"),
            (_license_of(self.readme.get("license")), f"{self.path}/README.md"),
        ]
        known = [(text, origin) for text, origin in declared if text is not None]
        if not known:
            return _license_of_repository(repository, root_project)
        text, origin = known[0]
        # Of a license without a name, or whose text stands elsewhere, nothing shows that two files mean the same.
        if len({text for text, _ in known}) > 1 or (len(known) > 1 and text == "other"):
            return FoundLicense("unknown", conflict=True)
        return FoundLicense(_license_name(text), origin)

    @property
    def _manifest(self) -> tuple[dict[str, Any], str]:
        return self.manifest, f"{self.path}/openenv.yaml#"

    @property
    def _project(self) -> tuple[dict[str, Any], str]:
        return self.project, f"{self.path}/pyproject.toml#project."

    def _first(self, key: str, *documents: tuple[dict[str, Any], str]) -> Found:
        for document, origin in documents:
            value = document.get(key)
            if value is None:
                continue
            if not isinstance(value, str) or not value.strip():
                break
            return Found(value, f"{origin}{key}")
        raise DeclarationError("invalid_metadata", f"{self.path}: no file declares its {key} as a text.")


def read_project(repository: Repository, path: str) -> dict[str, Any]:
    """Return the table ``project`` of a ``pyproject.toml``; empty where there is none.

    Raises:
        DeclarationError: It can't be read.
    """
    text = repository.read(path)
    project = {} if text is None else _mapping(parse_toml, text, path).get("project", {})
    if not isinstance(project, dict):
        raise DeclarationError("invalid_metadata", f"{path}: expected a table as project.")
    return project


def _read_front_matter(repository: Repository, path: str) -> dict[str, Any]:
    text = repository.read(path)
    if text is None or not text.startswith(("---\n", "---\r")):
        return {}
    matter = _FRONT_MATTER.match(text)
    if matter is None:
        raise DeclarationError("invalid_metadata", f"{path}: its front matter has no end; write --- below it.")
    return _mapping(parse_yaml, matter[1], path)


def _mapping(parse: Any, text: str, path: str) -> dict[str, Any]:
    try:
        values = parse(text)
    except DocumentError as error:
        raise DeclarationError("invalid_metadata", f"{path} can't be read: {error}") from error
    if not isinstance(values, dict):
        raise DeclarationError("invalid_metadata", f"{path}: expected keys and values.")
    return values


def _license_of(declared: Any) -> str | None:
    """Return a license's name, or the text of one without a name; ``None`` where none is declared."""
    if isinstance(declared, dict):
        if "file" in declared and "text" in declared:
            raise DeclarationError("invalid_metadata", "A license has either a file or a text; leave one out.")
        declared = declared.get("text", "unknown")
    if declared is None:
        return None
    if not isinstance(declared, str) or not declared.strip():
        return "unknown"
    try:
        return checked_license(declared.strip())
    except InvalidLicenseExpression:
        return declared.strip().replace("\r\n", "\n").replace("\r", "\n")


def _license_name(text: str) -> str:
    """Return the name of a license that is known by its name or by its text."""
    if text in UNCLEAR_LICENSES:
        return text
    try:
        return checked_license(text)
    except InvalidLicenseExpression:
        return "other"


def _license_of_repository(repository: Repository, project: dict[str, Any]) -> FoundLicense:
    text = _license_of(project.get("license"))
    if text is None:
        return FoundLicense("unknown")
    files = [path for path in project.get("license-files", []) if isinstance(path, str) and path in repository]
    return FoundLicense(_license_name(text), files[0] if files else "pyproject.toml")
