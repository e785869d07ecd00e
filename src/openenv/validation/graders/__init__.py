"""Graders: the form of a check, by which packages of others bring checks of their own."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from openenv.validation.manifest import CapabilitiesSpec, NormalizedManifest
from openenv.validation.policy import PolicyError
from openenv.validation.report import CheckResult
from openenv.validation.types import Level, ProviderCapability

if TYPE_CHECKING:
    from openenv.validation.providers import RunningSubject
    from openenv.validation.runtime.contracts import RuntimeEvidence

ENTRY_POINT_GROUP = "openenv.validation.graders"


@dataclass(frozen=True)
class Subject:
    """Package that a grader looks at, and what is known of it.

    Attributes:
        root: Its folder.
        manifest: Its normalized manifest.
        image_ref: Its image, if one was built.
        running: Its server, if that runs.
        outputs_dir: Folder for what a grader writes.
        runtime_evidence: What was exchanged with its server.
        network_evidence_json: What its network reached, as JSON.

    Example:
        >>> Subject.__dataclass_fields__["runtime_evidence"].default is None
        True
    """

    root: Path
    manifest: NormalizedManifest
    image_ref: str | None
    running: "RunningSubject | None"
    outputs_dir: Path
    runtime_evidence: "RuntimeEvidence | None" = None
    network_evidence_json: str | None = None


@runtime_checkable
class Grader(Protocol):
    """Check of a package.

    Attributes:
        check_id: Its name.
        level: Its level.
        requires_capabilities: Capabilities without which it is not selected, as fields of ``CapabilitiesSpec``.
        requires_provider: Abilities of the provider without which it is left out.
        depends_on: Names of checks that must have passed before.

    Example:
        >>> from openenv.validation.graders.static import StaticManifestGrader
        >>> from openenv.validation.policy import load_policy
        >>> isinstance(StaticManifestGrader(load_policy().bounds), Grader)
        True
    """

    check_id: str
    level: Level
    requires_capabilities: frozenset[str]
    requires_provider: frozenset[ProviderCapability]
    depends_on: tuple[str, ...]

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        """Return whether the check concerns packages with such a manifest."""
        ...

    def run(self, subject: Subject) -> CheckResult:
        """Make the check."""
        ...


class GraderRegistry:
    """The graders of a validation, by their checks' names.

    Example:
        >>> GraderRegistry().get("static.manifest") is None
        True
    """

    def __init__(self) -> None:
        self._graders: dict[str, Grader] = {}

    def register(self, grader: Grader) -> None:
        """Add a grader.

        Raises:
            ValueError: There is one for its check, or it requires a capability that does not exist.
        """
        if grader.check_id in self._graders:
            raise ValueError(f"grader already registered for check id {grader.check_id!r}")
        unknown = sorted(grader.requires_capabilities - CapabilitiesSpec.model_fields.keys())
        if unknown:
            raise ValueError(
                f"grader {grader.check_id!r} requires unknown capabilities: {unknown}; "
                "valid names are CapabilitiesSpec fields"
            )
        self._graders[grader.check_id] = grader

    def load_entry_points(self) -> int:
        """Add the graders of installed packages: instances, or classes that are called without arguments.

        Returns:
            The number of them.

        Raises:
            PolicyError: One can't be imported.
        """
        found = entry_points(group=ENTRY_POINT_GROUP)
        for entry in found:
            try:
                loaded = entry.load()
            except (ImportError, AttributeError) as error:
                raise PolicyError(f"grader {entry.value!r} of an installed package can't be loaded: {error}") from error
            self.register(loaded() if isinstance(loaded, type) else loaded)
        return len(found)

    def get(self, check_id: str) -> Grader | None:
        """Return the grader of a check, if there is one."""
        return self._graders.get(check_id)

    def select(self, manifest: NormalizedManifest, max_level: Level) -> list[Grader]:
        """Return the graders that concern a package, sorted by level and name.

        Args:
            manifest: The package's manifest.
            max_level: The highest level.
        """
        return sorted(
            (
                grader
                for grader in self._graders.values()
                if grader.level <= max_level
                and _has_all(manifest.capabilities, grader.requires_capabilities)
                and grader.applies_to(manifest)
            ),
            key=lambda grader: (grader.level, grader.check_id),
        )


def _has_all(capabilities: CapabilitiesSpec, names: Iterable[str]) -> bool:
    return all(getattr(capabilities, name) for name in names)
