"""The public package's environment is complete, or the reason why not is told."""

from pathlib import Path

import pytest
from benchmarks.public_package import PublicPackageError, install


def test_an_installation_is_complete_or_fails_with_pips_reason_and_is_then_made_anew(tmp_path: Path) -> None:
    not_a_package = tmp_path / "package"
    not_a_package.mkdir()
    folder = tmp_path / "venv"
    folder.mkdir()
    (folder / "left-over").touch()

    with pytest.raises(PublicPackageError, match=r"pip install(.|\n)*is not installable"):
        install(folder, str(not_a_package))
    assert not (folder / "left-over").exists()

    (folder / ".complete").touch()
    (folder / "kept").touch()
    install(folder, str(not_a_package))
    assert (folder / "kept").exists()
