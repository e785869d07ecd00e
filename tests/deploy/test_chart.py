"""The chart, rendered by Helm itself: the same objects as the manifests, and values that are checked."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as effort
from tests.support.deployments import deployments
from tests.support.services.kubernetes_tools import check_schema, helm_template, run_tool

from openenv.deploy.chart import chart_values, write_chart
from openenv.deploy.manifests import manifests
from openenv.deploy.settings import DeploymentSettings

ECHO = DeploymentSettings(name="echo", image="echo:1", max_sessions=64)


def by_kind(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {written["kind"]: written for written in objects}
    assert len(found) == len(objects)
    return found


def refusal(chart: Path, home: Path, *arguments: str) -> str:
    """Return what Helm says against values that it refuses."""
    finished = run_tool("helm", "template", "echo", str(chart), *arguments, home=home)
    assert finished.returncode != 0, finished.stdout
    return finished.stderr


@given(deployments())
@effort(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would run Helm for minutes
)
@example(DeploymentSettings("y", "on", namespace="no", secret="null", secret_env=("Y",), env_vars={"N": "yes"}))
def test_helm_renders_the_same_objects(tmp_path: Path, settings: DeploymentSettings) -> None:
    write_chart(settings, tmp_path / "chart")

    rendered = by_kind(helm_template(tmp_path / "chart", settings.name, settings.namespace, tmp_path))
    expected = by_kind(list(manifests(settings).values()))
    for written in expected.values():
        written["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm"
    assert rendered == expected


def test_helm_finds_nothing_wrong(tmp_path: Path) -> None:
    write_chart(ECHO, tmp_path / "chart")
    finished = run_tool("helm", "lint", "--strict", str(tmp_path / "chart"), home=tmp_path)
    assert finished.returncode == 0, finished.stdout

    packed = run_tool("helm", "package", str(tmp_path / "chart"), "--destination", str(tmp_path), home=tmp_path)
    assert packed.returncode == 0, packed.stderr
    assert (tmp_path / "echo-0.1.0.tgz").exists()


def test_a_release_of_another_name_has_objects_of_that_name(tmp_path: Path) -> None:
    write_chart(ECHO, tmp_path / "chart")
    rendered = helm_template(tmp_path / "chart", "blue", "games", tmp_path)

    for written in rendered:
        check_schema(written)
        assert (written["metadata"]["name"], written["metadata"]["namespace"]) == ("blue", "games")
    selected = {"app.kubernetes.io/name": "echo", "app.kubernetes.io/instance": "blue"}
    assert by_kind(rendered)["Service"]["spec"]["selector"] == selected
    assert by_kind(rendered)["Deployment"]["spec"]["template"]["metadata"]["labels"] == selected


def test_credentials_for_a_registry_can_be_given(tmp_path: Path) -> None:
    write_chart(ECHO, tmp_path / "chart")
    given = ("--set", "imagePullSecrets[0].name=pull")
    rendered = by_kind(helm_template(tmp_path / "chart", "echo", "default", tmp_path, *given))

    check_schema(rendered["Deployment"])
    assert rendered["Deployment"]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "pull"}]


@pytest.mark.parametrize(
    ("given", "culprit"),
    [
        ("replicas=0", "replicas"),
        ("replica=2", "replica"),
        ("image=", "image"),
        ("autoscaling.by=cpu", "by"),
        ("autoscaling.min=1", "min"),
        ("user=0", "user"),
        ("secret.name=", "name"),
        ("env.PORT=9000", "env"),
        ("env.A-B=1", "env"),
        ("sessionAffinity=Cookie", "sessionAffinity"),
        ("network.allowedNamespaces[0]=Not_A_Name", "allowedNamespaces"),
        ("resources.cpu=1", "resources"),
    ],
)
def test_values_that_make_no_sense_are_refused(tmp_path: Path, given: str, culprit: str) -> None:
    write_chart(ECHO, tmp_path / "chart")
    message = refusal(tmp_path / "chart", tmp_path, "--set", given)
    assert "don't meet the specifications of the schema" in message
    assert culprit in message


def test_every_value_is_described(tmp_path: Path) -> None:
    write_chart(ECHO, tmp_path / "chart")
    schema = json.loads((tmp_path / "chart" / "values.schema.json").read_text())
    values = chart_values(ECHO)

    assert set(schema["properties"]) - {"global"} == set(values)
    for name in ("secret", "network", "autoscaling"):
        assert set(schema["properties"][name]["properties"]) == set(values[name])


def test_no_token_is_in_a_chart_unless_asked_for(tmp_path: Path) -> None:
    write_chart(ECHO, tmp_path / "chart")
    assert yaml.safe_load((tmp_path / "chart" / "values.yaml").read_text())["secret"]["token"] == ""
    assert "Secret" not in by_kind(helm_template(tmp_path / "chart", "echo", "default", tmp_path))


@pytest.mark.parametrize(
    ("values", "expected", "unexpected"),
    [
        ([], "kubectl create secret generic echo", "journal"),
        (["journal=true"], "postgresql://", "KEDA"),
        (["secret.token=abc"], "kubectl rollout status", "create secret"),
        (["secret.token=abc", "journal=true"], "has no journal", "create secret"),
        (["autoscaling.by=keda"], "and KEDA", "Prometheus adapter"),
        (["autoscaling.by=prometheus-adapter"], "prometheus-adapter-values.yaml", "KEDA"),
    ],
)
def test_the_notes_say_what_is_missing(tmp_path: Path, values: list[str], expected: str, unexpected: str) -> None:
    write_chart(ECHO, tmp_path / "chart")
    sets = [part for value in values for part in ("--set", value)]
    arguments = ("install", "echo", str(tmp_path / "chart"), "--dry-run=client", "--namespace", "rl", *sets)
    finished = run_tool("helm", *arguments, home=tmp_path)
    assert finished.returncode == 0, finished.stderr

    notes = finished.stdout.partition("NOTES:")[2]
    assert expected in notes
    assert unexpected not in notes
    assert "http://echo.rl.svc:8000" in notes
