"""Parser of openenv.yaml: what is read, and the sentence for each fault."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.packages import declarations, package

from openenv.validation import ManifestError, NormalizedManifest, SignatureKind
from openenv.validation.manifest import NormalizedManifestV2
from openenv.validation.parsers.openenv_yaml import (
    SCHEMA_REMEDIATION,
    VALIDATION_BLOCK_REMEDIATION,
    OpenEnvYamlParser,
)


def fault(folder: Path) -> ManifestError:
    with pytest.raises(ManifestError) as error:
        OpenEnvYamlParser().parse(folder)
    return error.value


def test_name_and_version_are_at_the_top_and_the_rest_in_the_mapping(tmp_path: Path) -> None:
    found = OpenEnvYamlParser().parse(package(tmp_path, declarations(name="no", other=1)))
    assert (found.name, found.version, found.signature) == ("catch", "0.3.0", SignatureKind.OPENENV_SERVED)
    assert (found.manifest_schema_version, found.reward.range) == ("1", (-1.0, 1.0))


def test_a_package_that_says_how_it_is_run_has_the_second_version(tmp_path: Path) -> None:
    found = OpenEnvYamlParser().parse(package(tmp_path, declarations(execution={"dockerfile": "server/Dockerfile"})))
    assert isinstance(found, NormalizedManifestV2)
    assert (found.execution.dockerfile, found.execution.context) == ("server/Dockerfile", ".")


@pytest.mark.parametrize(
    ("text", "errors", "remediation"),
    [
        ("- a", ["openenv.yaml must be a YAML mapping"], SCHEMA_REMEDIATION),
        ("name: x", ["openenv.yaml has no `validation:` block"], VALIDATION_BLOCK_REMEDIATION),
        ("name: x\nvalidation:", ["openenv.yaml has no `validation:` block"], VALIDATION_BLOCK_REMEDIATION),
        ("name: x\nvalidation: yes", ["`validation:` must be a mapping"], VALIDATION_BLOCK_REMEDIATION),
    ],
)
def test_what_is_no_declaration(tmp_path: Path, text: str, errors: list[str], remediation: str) -> None:
    (tmp_path / "openenv.yaml").write_text(text)
    error = fault(tmp_path)
    assert (error.errors, error.remediation) == (errors, remediation)


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe", None])
def test_what_is_no_yaml(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "openenv.yaml").write_bytes(content)
    assert fault(tmp_path).errors[0].startswith("openenv.yaml is not valid YAML: ")


def test_each_fault_names_its_key(tmp_path: Path) -> None:
    resources = {"cpu": -1, "memory_mb": 512, "disk_mb": 256, "episode_timeout_s": 120}
    error = fault(package(tmp_path, declarations(resources=resources, types=None)))
    assert [line.partition(":")[0] for line in error.errors] == ["resources.cpu", "types"]
    assert error.remediation == SCHEMA_REMEDIATION


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(key=st.sampled_from([*declarations(), "judge", "execution", "task_distribution"]), value=values)
def test_any_value_gives_a_manifest_or_the_typed_error(
    key: str, value: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = package(tmp_path_factory.mktemp("any"), declarations(**{key: value}))
    outcome: NormalizedManifest | list[str]
    try:
        outcome = OpenEnvYamlParser().parse(folder)
    except ManifestError as error:
        outcome = error.errors
    assert outcome.name == "catch" if isinstance(outcome, NormalizedManifest) else outcome
