"""What is to be installed with pip."""

from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.support.environment_folders import write_files

from openenv._extras import DISTRIBUTION, install_command
from openenv.doctor import packages
from openenv.doctor.finding import Status

EMPTY = {"cli"}


def test_every_extra_is_known() -> None:
    provided = set(metadata(DISTRIBUTION).get_all("Provides-Extra") or ())
    assert packages.extras() == sorted(provided - EMPTY)


def test_what_all_of_openenv_requires_belongs_to_no_extra() -> None:
    assert "uvloop" not in packages.extra("postgres").detail
    assert packages.extra("postgres").detail.startswith("psycopg 3.")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("pytest", ""),
        ("pytest>=1", ""),
        ("pytest>=999", "expected >=999"),
        ("no-such-distribution-at-all", "no-such-distribution-at-all is not installed"),
        ("no-such-distribution-at-all; sys_platform == 'win32'", ""),
        ("pytest[some]>=1", ""),
    ],
)
def test_what_is_missing(line: str, told: str) -> None:
    assert told in packages.missing([Requirement(line)])
    assert bool(told) is bool(packages.missing([Requirement(line)]))


def test_an_extra_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [Requirement("no-such-distribution-at-all>=2")]
    monkeypatch.setattr(packages, "requirements_of", lambda extra: wanted)
    found = packages.extra("ray")
    assert (found.status, found.remedy) == (Status.MISSING, install_command("ray"))


class TestOpenEnv:
    """Which OpenEnv is installed, and whether it is alone."""

    @pytest.fixture
    def site(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A folder of distributions before all others."""
        monkeypatch.syspath_prepend(str(tmp_path))
        return tmp_path

    def _add(self, site: Path, version: str, requires: str) -> None:
        info = site / f"openenv-{version}.dist-info"
        write_files(info, {"METADATA": f"Metadata-Version: 2.1\nName: openenv\nVersion: {version}\n{requires}"})

    def test_both_names(self, site: Path) -> None:
        self._add(site, "0.11.0", "Requires-Dist: openenv_core==0.11.0\n")
        found = packages.openenv()
        assert (found.status, found.remedy) == (Status.READY, "")
        assert found.detail.startswith("openenv-core and openenv ")

    def test_the_public_package_beside_it(self, site: Path) -> None:
        self._add(site, "0.10.0", "Requires-Dist: fastapi\n")
        found = packages.openenv()
        assert (found.status, found.remedy) == (Status.MISSING, "pip uninstall openenv")
        assert "the public OpenEnv (openenv 0.10.0) is installed beside openenv-core" in found.detail

    def test_the_public_package_among_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(packages, "PACKAGE_FOLDER", write_files(tmp_path, {"cli/_cli_utils.py": ""}))
        found = packages.openenv()
        assert found.status is Status.MISSING
        assert found.detail.endswith("overwrite each other")
        assert found.remedy.startswith("`pip uninstall --yes openenv openenv-core`, remove")
