"""What an environment needs."""

from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold, write_files

from openenv.auto.package import EnvironmentPackage
from openenv.core.providers.venv.requirements import read_requirements
from openenv.doctor.finding import Status
from openenv.doctor.needs import packages_of, probes_for

ENVS = Path(__file__).parents[2] / "envs"


@pytest.mark.parametrize(
    ("folder", "needs"),
    [
        ("echo_env", {"packages"}),
        ("coding_env", {"packages", "sandbox"}),
        ("browsergym_env", {"packages", "browser"}),
    ],
)
def test_environments_of_the_catalog(folder: str, needs: set[str]) -> None:
    assert set(probes_for(EnvironmentPackage.from_folder(ENVS / folder))) == needs


def test_extras_that_it_asks_for(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace("openenv-core", "openenv-core[gymnasium]", 1))
    assert "extra gymnasium" in probes_for(EnvironmentPackage.from_folder(folder))


def test_what_it_lacks_and_what_brings_it(tmp_path: Path) -> None:
    listed = "openenv[core]\npytest\nno-such-distribution-at-all>=2\n-e ./beside\n"
    folder = write_files(tmp_path, {"requirements.txt": listed})
    found = packages_of(tmp_path, read_requirements(folder))
    assert found.status is Status.MISSING
    assert found.detail == "no-such-distribution-at-all is not installed"
    assert found.remedy.startswith(f"pip install pytest 'no-such-distribution-at-all>=2' -e {folder}/beside  # or")
