"""Signatures: the well-known file that says what kind of package a folder is."""

from pathlib import Path

import pytest
from tests.support.environment_folders import write_files

from openenv.validation import SignatureError, SignatureKind, UnsupportedPackageError, detect_signature

FRONT_MATTER = "---\ntitle: x\n---\n"


@pytest.mark.parametrize(
    "files", [{}, {"task.md": "# A task\n"}, {"task.md": "a\n---\n"}, {"task.md": "---- x\n"}, {"other.toml": ""}]
)
def test_a_package_with_one_signature(tmp_path: Path, files: dict[str, str]) -> None:
    assert detect_signature(write_files(tmp_path, {"openenv.yaml": "", **files})) is SignatureKind.OPENENV_SERVED


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"task.toml": ""}, "openenv.yaml, task.toml"),
        ({"task.md": FRONT_MATTER}, "openenv.yaml, task.md"),
        ({"task.toml": "", "task.md": FRONT_MATTER}, "openenv.yaml, task.toml, task.md"),
    ],
)
def test_two_signatures_are_ambiguous(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    folder = write_files(tmp_path, {"openenv.yaml": "", **files})
    with pytest.raises(SignatureError, match=r"^ambiguous package: ") as error:
        detect_signature(folder)
    assert f"matches multiple signatures ({expected}); a package must carry exactly one" in str(error.value)


@pytest.mark.parametrize("files", [{}, {"task.toml": ""}, {"task.md": FRONT_MATTER}])
def test_what_can_not_be_parsed_is_not_recognized(tmp_path: Path, files: dict[str, str]) -> None:
    expected = r"^unrecognized package: .* this build can parse \(openenv\.yaml\)$"
    with pytest.raises(SignatureError, match=expected):
        detect_signature(write_files(tmp_path, files))


def test_a_file_is_no_package(tmp_path: Path) -> None:
    file = tmp_path / "openenv.yaml"
    file.touch()
    with pytest.raises(SignatureError, match=r"^not a package directory: .*openenv\.yaml$"):
        detect_signature(file)


def test_an_unsupported_package_has_a_known_category() -> None:
    error = UnsupportedPackageError("multi-agent", "two players")
    assert (error.category, error.reason) == ("multi-agent", "two players")
    with pytest.raises(ValueError, match="unknown category 'x'"):
        UnsupportedPackageError("x", "")
