"""Catalog of a repository, built from its files."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from openenv.discovery.errors import CatalogError
from openenv.discovery.metadata import EnvironmentFiles, FoundLicense, framework_requirement, project_metadata
from openenv.discovery.models import (
    PROFILE_VERSION,
    AgentToolsInterface,
    CatalogIssue,
    CatalogSnapshot,
    DiscoveryEntry,
    EnvironmentCard,
    EnvironmentSource,
    GitArtifact,
    Interface,
    Inventory,
    OrchestrationInterface,
    Owner,
    Publisher,
    RepositorySource,
)
from openenv.discovery.repository import GitMetadataSource, MetadataError
from openenv.discovery.serialization import catalog_digest

_NAMESPACE = re.compile(r"[A-Za-z0-9._-]+")
_NO_DIGEST = f"sha256:{'0' * 64}"


def build_catalog(
    repository: str | Path,
    *,
    repository_uri: str,
    publisher: str,
    namespace: str = "openenv",
    revision: str = "HEAD",
    root: str = "envs",
) -> CatalogSnapshot:
    """Build the catalog of a repository's environments at one commit.

    Files that are not committed are not read, and no code is imported or run.

    Args:
        repository: The repository on this machine.
        repository_uri: Its public address, ``https://github.com/OWNER/NAME.git``.
        publisher: Domain of who publishes the catalog, as ``example.com``. Nothing verifies it.
        namespace: First part of the entries' names below the publisher.
        revision: A commit, a branch or a tag.
        root: The folder that holds the environments' folders.

    Returns:
        The catalog. It is complete where every environment has an entry; its issues list what the others lack.

    Raises:
        CatalogError: An argument is not as it must be, or git can't read the repository.
    """
    try:
        TypeAdapter(Publisher).validate_python(publisher)
    except ValidationError as error:
        raise CatalogError(f"Expected a domain as the publisher, as example.com, got {publisher!r}.") from error
    if not _NAMESPACE.fullmatch(namespace):
        raise CatalogError(f"Expected letters, digits, '.', '_' and '-' as the namespace, got {namespace!r}.")
    source = GitMetadataSource(Path(repository), repository_uri, revision, root)
    builder = _Builder(source, f"urn:air:{publisher}:{namespace}")
    for path in source.environments:
        builder.add(path)
    unsigned = CatalogSnapshot(
        publisher=publisher,
        source=RepositorySource(provider="github", id=source.repository_id, uri=source.uri, revision=source.revision),
        inventory=Inventory(root=source.root, paths=source.environments),
        entries=builder.entries,
        issues=builder.issues,
        complete=all(issue.severity != "error" for issue in builder.issues),
        digest=_NO_DIGEST,
    )
    return unsigned.model_copy(update={"digest": catalog_digest(unsigned)})


class _Builder:
    """Maker of entries of folders, and of issues of folders that can be none."""

    def __init__(self, source: GitMetadataSource, name: str) -> None:
        self.entries: list[DiscoveryEntry] = []
        self.issues: list[CatalogIssue] = []
        self._source = source
        self._name = name
        self._root_project = project_metadata(source, "pyproject.toml")

    def add(self, path: str) -> None:
        """Add a folder's entry, or the error that keeps it out."""
        try:
            files = EnvironmentFiles.read(self._source, path)
            license_found = files.license(self._source, self._root_project)
            self.entries.append(self._entry(files, license_found))
        except MetadataError as error:
            self._note(path, error.code, str(error), "error")
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            self._note(path, "invalid_metadata", f"{path}: {key}: {first['msg']}".replace(": :", ":"), "error")
        else:
            if license_found.conflict:
                message = f"{path}: pyproject.toml and README.md declare different licenses."
                self._note(path, "license_conflict", message, "warning")

    def _note(self, path: str, code: str, message: str, severity: Any) -> None:
        self.issues.append(CatalogIssue(path=path, code=code, message=message, severity=severity))

    def _entry(self, files: EnvironmentFiles, license_found: FoundLicense) -> DiscoveryEntry:
        name, description, requirement = files.name(), files.description(), framework_requirement(files.project)
        origins = {"name": name.origin, "description": description.origin, "source": self._source.uri}
        if license_found.origin is not None:
            origins["license"] = license_found.origin
        if files.declaration.agent_tools is not None:
            origins["agent_tools"] = files.declaration.agent_tools.source
        if requirement is not None:
            origins["framework_requirement"] = f"{files.path}/pyproject.toml#project.dependencies"
        if "spec_version" in files.manifest:
            origins["manifest_spec_version"] = f"{files.path}/openenv.yaml#spec_version"
        tools = files.declaration.agent_tools
        return DiscoveryEntry(
            identifier=self._identifier(files.path),
            display_name=name.value,
            description=description.value,
            data=self._card(files, name.value, description.value, license_found, requirement),
            tags=files.tags(),
            capabilities=[] if tools is None else tools.names,
            representative_queries=files.declaration.representative_queries,
            metadata={"provenance": dict(origins)},
        )

    def _identifier(self, path: str) -> str:
        folder = sha256(f"{self._source.uri}\n{path}".encode()).hexdigest()
        return f"{self._name}:{folder}:{self._source.revision}"

    def _card(
        self, files: EnvironmentFiles, name: str, description: str, license_found: FoundLicense, requirement: str | None
    ) -> EnvironmentCard:
        source, availability = self._source, files.declaration.artifact_availability
        where: dict[str, str] = {"uri": source.uri, "path": files.path, "revision": source.revision}
        has_page = license_found.origin is not None and license_found.name != "unknown"
        return EnvironmentCard(
            schema_version=PROFILE_VERSION,
            name=name,
            description=description,
            owner=Owner(authority="github.com", id=source.repository_id.partition("/")[0]),
            source=EnvironmentSource(provider="github", id=source.repository_id, **where),
            artifact_availability=availability,
            artifacts=[GitArtifact(kind="git", **where)] if availability == "resolvable" else [],
            license=license_found.name,
            license_url=source.url(str(license_found.origin)) if has_page else None,
            interfaces=self._interfaces(files),
            manifest_spec_version=files.manifest.get("spec_version"),
            framework_requirement=requirement,
        )

    def _interfaces(self, files: EnvironmentFiles) -> list[Interface]:
        found: list[Interface] = [OrchestrationInterface(role="orchestration", protocol="openenv")]
        tools = files.declaration.agent_tools
        if tools is None:
            return found
        if not tools.source.startswith(f"{files.path}/"):
            fault = f"{files.path}/discovery.json: the source of its tools, {tools.source}, is not in its folder."
            raise MetadataError("invalid_metadata", fault)
        self._source.read(tools.source, required=True)
        revision = self._source.revision
        declared = AgentToolsInterface(
            role="agent-tools", protocol=tools.protocol, status="declared", source_revision=revision
        )
        return [*found, declared]
