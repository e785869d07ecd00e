"""Declarations in an environment's files: openenv.yaml, pyproject.toml, README.md and discovery.json."""

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from packaging.licenses import InvalidLicenseExpression
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import Field, ValidationError, field_validator

from openenv.core.documents import DocumentError, parse_json, parse_toml, parse_yaml
from openenv.discovery.models import (
    License,
    ProfileModel,
    Queries,
    RelativePath,
    Text,
    check_tool_names,
    checked_license,
)
from openenv.discovery.repository import GitMetadataSource, MetadataError

_FRONT_MATTER = re.compile(r"---\r?\n(.*?)^---\r?$", re.DOTALL | re.MULTILINE)


class ToolDeclaration(ProfileModel):
    """Tools that an environment has for agents, and the file that shows it.

    Attributes:
        protocol: Protocol of the tools, as ``mcp``.
        names: Their names, each once; a name of a route of the simulation is none.
        source: File in the environment's folder that declares them.
    """

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


class DiscoveryDeclaration(ProfileModel):
    """Content of ``discovery.json``, which no other file has.

    Attributes:
        description: Description, which goes before those of the other files.
        tags: Tags, which go before those of the README.
        representative_queries: Queries that the environment is a good answer to: none, or two to five.
        license: SPDX expression, ``other`` or ``unknown``.
        license_source: File that has the license's text.
        artifact_availability: Whether the commit is the environment's artifact (``resolvable``), or another one is.
        agent_tools: Tools that the environment has for agents.

    Example:
        >>> DiscoveryDeclaration(tags=["game"]).artifact_availability
        'resolvable'
    """

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


class LicenseDeclaration(NamedTuple):
    """License of one file: an SPDX expression, ``other`` or ``unknown``; and the text of one that has no name."""

    expression: str
    text: str | None = None


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
    declaration: DiscoveryDeclaration = field(default_factory=DiscoveryDeclaration)

    @classmethod
    def read(cls, source: GitMetadataSource, path: str) -> "EnvironmentFiles":
        """Read the files of a folder.

        Raises:
            MetadataError: A file can't be read, or has a value that it may not have.
        """
        manifest = source.read(f"{path}/openenv.yaml", required=True)
        return cls(
            path,
            yaml_mapping(str(manifest), f"{path}/openenv.yaml"),
            project_metadata(source, f"{path}/pyproject.toml"),
            readme_metadata(source, f"{path}/README.md"),
            discovery_declaration(source, f"{path}/discovery.json"),
        )

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
            raise MetadataError("invalid_metadata", f"{self.path}: expected a list of texts as tags.")
        return sorted(set(tags))

    def license(self, source: GitMetadataSource, root_project: dict[str, Any]) -> FoundLicense:
        """Return the license: of ``discovery.json``, else of the package and the README, else of the repository."""
        if self.declaration.license is not None:
            origin = self.declaration.license_source or f"{self.path}/discovery.json"
            source.read(origin, required=True)
            return FoundLicense(self.declaration.license, origin)
        declared = [
            (license_declaration(self.project.get("license")), f"{self.path}/pyproject.toml"),
            (license_declaration(self.readme.get("license")), f"{self.path}/README.md"),
        ]
        known = [(license_found, origin) for license_found, origin in declared if license_found is not None]
        if not known:
            return _license_of_repository(source, root_project)
        first, origin = known[0]
        # Of a license without a name, or whose text stands elsewhere, nothing shows that two files mean the same.
        if len({each for each, _ in known}) > 1 or (len(known) > 1 and first == ("other", None)):
            return FoundLicense("unknown", conflict=True)
        return FoundLicense(first.expression, origin)

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
        raise MetadataError("invalid_metadata", f"{self.path}: no file declares its {key} as a text.")


def yaml_mapping(text: str, path: str) -> dict[str, Any]:
    """Return the keys and values of a YAML file.

    Args:
        text: Its text.
        path: Its path, for messages.

    Raises:
        MetadataError: It can't be read, a key stands twice or is no text, or it is something else.

    Example:
        >>> yaml_mapping("name: catch", "envs/catch/openenv.yaml")
        {'name': 'catch'}
    """
    return _mapping(partial(parse_yaml, strict=True), text, path)


def project_metadata(source: GitMetadataSource, path: str) -> dict[str, Any]:
    """Return the table ``project`` of a ``pyproject.toml``; empty where there is none.

    Args:
        source: The repository.
        path: The file's path in it.

    Raises:
        MetadataError: It can't be read.
    """
    text = source.read(path)
    project = {} if text is None else _mapping(parse_toml, text, path).get("project", {})
    if not isinstance(project, dict):
        raise MetadataError("invalid_metadata", f"{path}: expected a table as project.")
    return project


def readme_metadata(source: GitMetadataSource, path: str) -> dict[str, Any]:
    """Return the front matter of a ``README.md``; empty where there is none.

    Args:
        source: The repository.
        path: The file's path in it.

    Raises:
        MetadataError: It can't be read, or has no end.
    """
    text = source.read(path)
    if text is None or not text.startswith(("---\n", "---\r")):
        return {}
    matter = _FRONT_MATTER.match(text)
    if matter is None:
        raise MetadataError("invalid_metadata", f"{path}: its front matter has no end; write --- below it.")
    return yaml_mapping(matter[1], path)


def discovery_declaration(source: GitMetadataSource, path: str) -> DiscoveryDeclaration:
    """Return the content of a ``discovery.json``; the defaults where there is none.

    Args:
        source: The repository.
        path: The file's path in it.

    Raises:
        MetadataError: It can't be read, or has a value that it may not have.
    """
    text = source.read(path)
    if text is None:
        return DiscoveryDeclaration()
    try:
        return DiscoveryDeclaration.model_validate(_mapping(parse_json, text, path))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise MetadataError("invalid_metadata", f"{path}: {key}: {first['msg']}".replace(": :", ":")) from error


def license_declaration(value: object) -> LicenseDeclaration | None:
    """Return the license that a file declares; ``None`` where it declares none.

    Args:
        value: An SPDX expression, the text of a license, or a table with ``text`` or ``file``, as in pyproject.toml.

    Raises:
        MetadataError: It is a table with both.

    Example:
        >>> license_declaration("mit or apache-2.0")
        LicenseDeclaration(expression='MIT OR Apache-2.0', text=None)
    """
    if isinstance(value, dict):
        if "file" in value and "text" in value:
            raise MetadataError("invalid_metadata", "A license has either a file or a text; leave one out.")
        value = value.get("text", "unknown")
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        return LicenseDeclaration("unknown")
    try:
        return LicenseDeclaration(checked_license(value.strip()))
    except InvalidLicenseExpression:
        return LicenseDeclaration("other", value.strip().replace("\r\n", "\n").replace("\r", "\n"))


def framework_requirement(project: dict[str, Any]) -> str | None:
    """Return a project's requirement of OpenEnv under its public name; ``None`` where there is none.

    Args:
        project: The table ``project`` of its ``pyproject.toml``.

    Raises:
        MetadataError: Its dependencies are no list of requirements, or require it more than once.

    Example:
        >>> framework_requirement({"dependencies": ["openenv>=0.2", "numpy"]})
        'openenv>=0.2'
    """
    dependencies = project.get("dependencies", [])
    try:
        if not isinstance(dependencies, list):
            raise TypeError("no list")
        found = [text for text in dependencies if canonicalize_name(Requirement(text).name) == "openenv"]
    except (InvalidRequirement, TypeError) as error:
        fault = f"pyproject.toml: expected a list of requirements as dependencies, got {dependencies!r}."
        raise MetadataError("invalid_metadata", fault) from error
    if len(found) > 1:
        raise MetadataError("invalid_metadata", f"pyproject.toml requires openenv {len(found)} times; leave one.")
    return found[0] if found else None


def _mapping(parse: Any, text: str, path: str) -> dict[str, Any]:
    try:
        values = parse(text)
    except DocumentError as error:
        raise MetadataError("invalid_metadata", f"{path} can't be read: {error}") from error
    if not isinstance(values, dict):
        raise MetadataError("invalid_metadata", f"{path}: expected keys and values.")
    return values


def _license_of_repository(source: GitMetadataSource, project: dict[str, Any]) -> FoundLicense:
    declared = license_declaration(project.get("license"))
    if declared is None:
        return FoundLicense("unknown")
    files = [path for path in project.get("license-files", []) if isinstance(path, str) and path in source.files]
    return FoundLicense(declared.expression, files[0] if files else "pyproject.toml")
