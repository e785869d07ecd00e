"""What is written where."""

import stat
from pathlib import Path

import pytest
import yaml

from openenv.core.exceptions import ConfigurationError
from openenv.deploy.files import write_deployment
from openenv.deploy.manifests import manifests
from openenv.deploy.settings import Autoscaler, DeploymentSettings

ECHO = DeploymentSettings(name="echo", image="echo:1", max_sessions=64)


def test_manifests_are_written_as_they_are(tmp_path: Path) -> None:
    written = write_deployment(ECHO, tmp_path / "deep" / "down")

    assert {file.parent for file in written} == {tmp_path / "deep" / "down" / "manifests"}
    assert {file.stem: yaml.safe_load(file.read_text()) for file in written} == manifests(ECHO)


def test_a_chart_is_written_whole(tmp_path: Path) -> None:
    written = {str(file.relative_to(tmp_path / "chart")) for file in write_deployment(ECHO, tmp_path, as_chart=True)}
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "templates/NOTES.txt"} <= written
    assert written == {str(path.relative_to(tmp_path / "chart")) for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("as_chart", [False, True])
def test_what_is_there_already_is_kept(tmp_path: Path, as_chart: bool) -> None:
    write_deployment(ECHO, tmp_path, as_chart=as_chart)
    with pytest.raises(ConfigurationError, match="Expected nothing at"):
        write_deployment(ECHO, tmp_path, as_chart=as_chart)


@pytest.mark.parametrize("as_chart", [False, True])
def test_nobody_else_reads_a_token_that_is_written(tmp_path: Path, as_chart: bool) -> None:
    settings = DeploymentSettings(name="echo", image="echo:1", token="hush")
    (folder,) = {
        file.parent for file in write_deployment(settings, tmp_path, as_chart=as_chart) if "hush" in text(file)
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def text(file: Path) -> str:
    return file.read_text()


def test_the_adapters_values_are_no_manifest(tmp_path: Path) -> None:
    settings = DeploymentSettings("echo", "echo:1", max_sessions=8, autoscaler=Autoscaler.PROMETHEUS_ADAPTER)
    written = write_deployment(settings, tmp_path)
    assert tmp_path / "prometheus-adapter-values.yaml" in written
    assert all("kind" in yaml.safe_load(file.read_text()) for file in (tmp_path / "manifests").iterdir())
