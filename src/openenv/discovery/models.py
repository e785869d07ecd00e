"""Format of a catalog, version ``0.1-draft``: entries, the card of an environment in each, and their origin.

A card repeats what the files of one commit declare. Nothing in it was tried, and an owner or a licence is verified
nowhere.
"""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from packaging.licenses import canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

PROFILE_VERSION: Literal["0.1-draft"] = "0.1-draft"
"""Version of the format."""

ENVIRONMENT_MEDIA_TYPE: Literal["application/vnd.openenv.environment-card+json"] = (
    "application/vnd.openenv.environment-card+json"
)
"""Media type of an entry's data."""

SIMULATION_CONTROLS = frozenset({"reset", "step", "state", "get_state"})
"""Names that no tool of an agent has."""

UNCLEAR_LICENSES = ("other", "unknown")

_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\\\\]")
_REPOSITORY = re.compile(r"/([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)\.git")


def relative_path(path: str) -> str:
    """Return a path inside a repository: relative, with ``/``, without ``.`` and ``..``; or ``.`` for all of it.

    Raises:
        ValueError: It is none.
    """
    parts = path.split("/")
    if path != "." and (_CONTROL_CHARACTER.search(path) or any(part in ("", ".", "..") for part in parts)):
        raise ValueError(f"expected a path inside the repository, as envs/echo_env, got {path!r}")
    return path


def github_repository(uri: str) -> str:
    """Return ``OWNER/NAME`` of a repository's address.

    Raises:
        ValueError: It is none of ``https://github.com/OWNER/NAME.git``.
    """
    parts = urlsplit(uri)
    found = _REPOSITORY.fullmatch(parts.path)
    is_plain = parts.scheme == "https" and parts.netloc.lower() == "github.com" and not (parts.query or parts.fragment)
    if not is_plain or found is None or any(part in (".", "..") for part in found[1].split("/")):
        raise ValueError(f"expected https://github.com/OWNER/NAME.git as the repository's address, got {uri!r}")
    return found[1]


def checked_license(license_name: str) -> str:
    """Return an SPDX expression in its usual spelling; ``other`` and ``unknown`` stay.

    Raises:
        ValueError: It is no expression.
    """
    return license_name if license_name in UNCLEAR_LICENSES else str(canonicalize_license_expression(license_name))


def metadata_url(url: str) -> str:
    """Return the address of a page with metadata: with https, and without a login.

    Raises:
        ValueError: It is none.
    """
    parts = urlsplit(url)
    has_login = parts.username is not None or parts.password is not None
    if parts.scheme != "https" or not parts.hostname or has_login or "\\" in parts.netloc:
        raise ValueError(f"expected an address with https and without a login, got {url!r}")
    return url


def _checked_requirement(text: str) -> str:
    if canonicalize_name(Requirement(text).name) != "openenv":
        raise ValueError(f"expected a requirement of openenv, got {text!r}")
    return text


Text = Annotated[str, StringConstraints(min_length=1, max_length=8192, pattern=r"\S")]
RelativePath = Annotated[Text, AfterValidator(relative_path)]
Queries = Annotated[list[Text], Field(max_length=0)] | Annotated[list[Text], Field(min_length=2, max_length=5)]
License = Annotated[Text, AfterValidator(checked_license)]
Publisher = Annotated[
    str,
    StringConstraints(
        min_length=3, max_length=253, pattern=r"^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}$"
    ),
]
Revision = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]


class ProfileModel(BaseModel):
    """Base of the format's parts: unknown fields and other types than the declared ones are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True, allow_inf_nan=False)


class Owner(ProfileModel):
    """Owner of the repository, by its address."""

    authority: Text
    id: Text


class RepositorySource(ProfileModel):
    """A repository at one commit."""

    provider: Literal["github"]
    id: Text
    uri: Text
    revision: Revision

    @model_validator(mode="after")
    def _id_is_of_the_address(self) -> Self:
        if github_repository(self.uri) != self.id:
            raise ValueError(f"the repository {self.id} is not at {self.uri}")
        return self


class EnvironmentSource(RepositorySource):
    """An environment's folder in it."""

    path: RelativePath


class GitArtifact(ProfileModel):
    """Folder that can be fetched, at that commit."""

    kind: Literal["git"]
    uri: Text
    path: RelativePath
    revision: Revision


class OrchestrationInterface(ProfileModel):
    """Interface for what drives an environment: always OpenEnv's."""

    role: Literal["orchestration"]
    protocol: Literal["openenv"]


class AgentToolsInterface(ProfileModel):
    """The interface for agents, as the environment declares it."""

    role: Literal["agent-tools"]
    protocol: Text
    status: Literal["declared"]
    source_revision: Revision


Interface = Annotated[OrchestrationInterface | AgentToolsInterface, Field(discriminator="role")]


class EnvironmentCard(ProfileModel):
    """Declarations of an environment's files at one commit."""

    schema_version: Literal["0.1-draft"]
    name: Text
    description: Text
    owner: Owner | Literal["unknown"]
    source: EnvironmentSource
    artifact_availability: Literal["resolvable", "external", "unknown"]
    artifacts: list[GitArtifact] = Field(default_factory=list)
    license: License
    license_url: Annotated[Text, AfterValidator(metadata_url)] | None = None
    interfaces: list[Interface]
    manifest_spec_version: int | str | None = None
    framework_requirement: Annotated[Text, AfterValidator(_checked_requirement)] | None = None

    @model_validator(mode="after")
    def _artifacts_are_of_the_source(self) -> Self:
        if (self.artifact_availability == "resolvable") != bool(self.artifacts):
            raise ValueError("a resolvable environment has an artifact, and only such a one")
        source = self.source
        for artifact in self.artifacts:
            if (artifact.uri, artifact.path, artifact.revision) != (source.uri, source.path, source.revision):
                raise ValueError(f"the artifact {artifact.path} is not the environment at {source.path}")
        return self

    @model_validator(mode="after")
    def _license_has_a_page(self) -> Self:
        if self.license == "other" and self.license_url is None:
            raise ValueError("the license 'other' needs the address of its text")
        return self

    @model_validator(mode="after")
    def _interfaces_are_distinct(self) -> Self:
        tools = [each for each in self.interfaces if isinstance(each, AgentToolsInterface)]
        if len(self.interfaces) - len(tools) != 1:
            raise ValueError("expected exactly one interface for what drives the environment")
        if any(each.source_revision != self.source.revision for each in tools):
            raise ValueError("an interface for agents was declared at another commit")
        if len({each.protocol for each in tools}) != len(tools):
            raise ValueError("two interfaces for agents have the same protocol")
        return self


class DiscoveryEntry(ProfileModel):
    """Environment of a catalog, with the text that a search reads."""

    context: Literal["https://agenticresourcediscovery.org/context/v1"] = Field(
        default="https://agenticresourcediscovery.org/context/v1", alias="@context"
    )
    identifier: Text
    display_name: Text = Field(alias="displayName")
    type: Literal["application/vnd.openenv.environment-card+json"] = ENVIRONMENT_MEDIA_TYPE
    data: EnvironmentCard
    description: Text
    tags: list[Text] = Field(default_factory=list)
    capabilities: list[Text] = Field(default_factory=list)
    representative_queries: Queries = Field(default_factory=list, alias="representativeQueries")
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """Text that a search reads."""
        described = [self.display_name, self.data.description, *self.tags, *self.capabilities]
        return " ".join([*described, *self.representative_queries])

    @model_validator(mode="after")
    def _identifier_is_of_the_commit(self) -> Self:
        if not (self.identifier.startswith("urn:air:") and self.identifier.endswith(f":{self.data.source.revision}")):
            raise ValueError(f"the identifier {self.identifier} is not of the commit {self.data.source.revision}")
        return self

    @model_validator(mode="after")
    def _capabilities_are_tools(self) -> Self:
        check_tool_names(self.capabilities)
        if self.capabilities and not any(each.role == "agent-tools" for each in self.data.interfaces):
            raise ValueError("capabilities need an interface for agents")
        return self


def check_tool_names(names: list[str]) -> None:
    """Refuse names that agents' tools do not have.

    Raises:
        ValueError: A name is of a request that drives an environment.
    """
    controls = [name for name in names if name.casefold() in SIMULATION_CONTROLS]
    if controls:
        raise ValueError(f"{', '.join(controls)}: these control a simulation, and are no tools of an agent")


class Inventory(ProfileModel):
    """Folders below one folder that hold an environment."""

    root: RelativePath
    paths: list[RelativePath]

    @model_validator(mode="after")
    def _paths_are_children(self) -> Self:
        parent = "" if self.root == "." else self.root
        if any(path == "." or path.rpartition("/")[0] != parent for path in self.paths):
            raise ValueError(f"expected folders directly in {self.root}")
        if len(set(self.paths)) != len(self.paths):
            raise ValueError("a folder stands twice")
        return self


class CatalogIssue(ProfileModel):
    """Fault of an environment: an error keeps it out of the catalog, a warning does not."""

    path: RelativePath
    code: Text
    message: Text
    severity: Literal["warning", "error"]


class Generator(ProfileModel):
    """Rules by which files become entries; both packages have the same."""

    name: Literal["openenv-git-catalog"] = "openenv-git-catalog"
    version: Literal["1"] = "1"


class CatalogSnapshot(ProfileModel):
    """A catalog: every environment of an inventory is an entry or an error."""

    schema_version: Literal["0.1-draft"] = PROFILE_VERSION
    publisher: Publisher
    source: RepositorySource
    generator: Generator = Field(default_factory=Generator)
    inventory: Inventory
    entries: list[DiscoveryEntry]
    issues: list[CatalogIssue] = Field(default_factory=list)
    complete: bool
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]

    @model_validator(mode="after")
    def _entries_are_of_the_source(self) -> Self:
        own = _facts(self.source)
        for entry in self.entries:
            if _facts(entry.data.source) != own:
                raise ValueError(f"{entry.identifier} is of another repository or commit")
            if not entry.identifier.startswith(f"urn:air:{self.publisher}:"):
                raise ValueError(f"{entry.identifier} is of another publisher than {self.publisher}")
        if len({entry.identifier for entry in self.entries}) != len(self.entries):
            raise ValueError("two entries have the same identifier")
        return self

    @model_validator(mode="after")
    def _inventory_is_accounted_for(self) -> Self:
        found = [entry.data.source.path for entry in self.entries]
        failed = {issue.path for issue in self.issues if issue.severity == "error"}
        if sorted([*found, *failed]) != sorted(self.inventory.paths):
            raise ValueError("each folder of the inventory must have one entry, or else an error")
        if self.complete == bool(failed):
            raise ValueError("a catalog is complete exactly where no environment has an error")
        return self


def _facts(source: RepositorySource) -> tuple[Any, ...]:
    return source.id, source.uri, source.revision


class SearchMatch(ProfileModel):
    """An entry that a search found.

    Attributes:
        entry: The entry.
        score: Per cent of the query's words that it has.
    """

    entry: DiscoveryEntry
    score: Annotated[int, Field(ge=0, le=100)]


class SupersededEntry(ProfileModel):
    """An entry of two catalogs that differs."""

    previous: DiscoveryEntry
    current: DiscoveryEntry


class CatalogChanges(ProfileModel):
    """Differences of a catalog from an earlier catalog of the same repository.

    Attributes:
        added: Entries of folders that are new.
        withdrawn: Entries of folders that are gone.
        superseded: Entries of another commit.
        corrected: Entries of the same commit with other contents.
    """

    added: list[DiscoveryEntry]
    withdrawn: list[DiscoveryEntry]
    superseded: list[SupersededEntry]
    corrected: list[SupersededEntry]
