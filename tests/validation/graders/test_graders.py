"""Graders: their registry, and those of installed packages."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from tests.support.packages import declarations, package

from openenv.validation import (
    ENTRY_POINT_GROUP,
    CheckResult,
    CheckStatus,
    Grader,
    GraderRegistry,
    Level,
    NormalizedManifest,
    PolicyError,
    Subject,
)
from openenv.validation import graders as module
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.types import ProviderCapability


class Named:
    """Grader that passes."""

    requires_provider: frozenset[ProviderCapability] = frozenset()
    depends_on: tuple[str, ...] = ()

    def __init__(
        self,
        check_id: str = "acme.licence",
        level: Level = Level.STATIC,
        capabilities: tuple[str, ...] = (),
        applies: bool = True,
    ) -> None:
        self.check_id, self.level, self._applies = check_id, level, applies
        self.requires_capabilities = frozenset(capabilities)

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        return self._applies

    def run(self, subject: Subject) -> CheckResult:
        return CheckResult(check_id=self.check_id, status=CheckStatus.PASS, duration_s=0.0)


NAMED = Named("acme.instance")


def registry(*graders: Grader) -> GraderRegistry:
    made = GraderRegistry()
    for grader in graders:
        made.register(grader)
    return made


def test_a_grader_is_found_by_its_id() -> None:
    grader = Named()
    assert isinstance(grader, Grader)
    assert registry(grader).get("acme.licence") is grader
    assert registry(grader).get("acme.other") is None


def test_an_id_has_one_grader() -> None:
    with pytest.raises(ValueError, match=r"grader already registered for check id 'acme\.licence'"):
        registry(Named(), Named())


def test_only_capabilities_that_exist_can_be_required() -> None:
    expected = r"requires unknown capabilities: \['flies', 'swims'\]; valid names are CapabilitiesSpec fields"
    with pytest.raises(ValueError, match=expected):
        registry(Named(capabilities=("swims", "flies", "oracle")))


def test_graders_are_selected_by_level_capabilities_and_manifest(tmp_path: Path) -> None:
    manifest = OpenEnvYamlParser().parse(package(tmp_path, declarations()))
    made = registry(
        Named("b.semantic", Level.SEMANTIC),
        Named("z.static"),
        Named("a.runtime", Level.RUNTIME, ("oracle", "declared_task_count")),
        Named("a.tasks", capabilities=("task_api",)),
        Named("a.tools", capabilities=("declared_tools",)),
        Named("a.other", applies=False),
        Named("a.static"),
    )
    assert [each.check_id for each in made.select(manifest, Level.RUNTIME)] == ["a.static", "z.static", "a.runtime"]


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    found = EntryPoints(EntryPoint(name, f"{__name__}:{name}", ENTRY_POINT_GROUP) for name in names)
    monkeypatch.setattr(module, "entry_points", lambda **_: found)


def test_installed_packages_bring_instances_and_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "NAMED", "Named")
    made = GraderRegistry()
    assert made.load_entry_points() == 2
    assert made.get("acme.instance") is NAMED
    assert isinstance(made.get("acme.licence"), Named)


def test_a_grader_that_can_not_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "Nothing")
    with pytest.raises(PolicyError, match=r"grader '.*:Nothing' of an installed package can't be loaded"):
        GraderRegistry().load_entry_points()


def test_the_group_is_the_public_one() -> None:
    subject: Any = Subject.__dataclass_fields__
    assert ENTRY_POINT_GROUP == "openenv.validation.graders"
    assert list(subject)[:5] == ["root", "manifest", "image_ref", "running", "outputs_dir"]
