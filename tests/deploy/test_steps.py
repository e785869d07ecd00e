"""What is to be typed next, typed."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.services.kubernetes_tools import tool

from openenv.deploy.manifests import manifests
from openenv.deploy.settings import Autoscaler, DeploymentSettings
from openenv.deploy.steps import next_steps

FOLDER = Path("deploy/echo")


def settings(**choice: Any) -> DeploymentSettings:
    return DeploymentSettings(**{"name": "echo", "image": "echo:1", "namespace": "rl", **choice})


def secret_command(steps: str) -> str:
    """Take the command that makes the Secret out of the steps."""
    _, _, rest = steps.partition("Make its Secret, once:\n")
    return rest.partition("\n\n")[0].strip()


def keys_that_are_referred_to(chosen: DeploymentSettings) -> set[tuple[str, str]]:
    env = manifests(chosen)["deployment"]["spec"]["template"]["spec"]["containers"][0]["env"]
    references = [entry["valueFrom"]["secretKeyRef"] for entry in env if "valueFrom" in entry]
    return {(reference["name"], reference["key"]) for reference in references}


@pytest.mark.parametrize(
    "choice",
    [{}, {"journal": True}, {"secret": "keys", "secret_env": ("API_KEY", "OTHER_KEY"), "journal": True}],
    ids=["token", "journal", "all"],
)
def test_the_command_makes_the_secret_that_servers_wait_for(tmp_path: Path, choice: dict[str, Any]) -> None:
    chosen = settings(**choice)
    command = f"{secret_command(next_steps(chosen, FOLDER))} --dry-run=client --output yaml"
    variables = {"PATH": f"{tool('kubectl').parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    variables |= {"API_KEY": "one", "OTHER_KEY": "two"}
    finished = subprocess.run(["bash", "-c", command], env=variables, capture_output=True, text=True, timeout=100)
    assert finished.returncode == 0, finished.stderr

    made = yaml.safe_load(finished.stdout)
    assert made["metadata"]["namespace"] == "rl"
    assert {(made["metadata"]["name"], key) for key in made["data"]} == keys_that_are_referred_to(chosen)
    assert all(made["data"].values())


def test_a_secret_that_was_written_need_not_be_made() -> None:
    assert "create secret" not in next_steps(settings(token="t"), FOLDER)


def test_manifests_and_charts_are_deployed_each_in_its_way() -> None:
    assert "kubectl apply --filename deploy/echo/manifests" in next_steps(settings(), FOLDER)
    steps = next_steps(settings(), FOLDER, as_chart=True)
    assert "helm upgrade --install echo deploy/echo/chart --namespace rl" in steps
    assert "kubectl apply" not in steps
    assert "--filename 'my games/manifests'" in next_steps(settings(), Path("my games"))


def test_what_an_autoscaler_needs_is_said() -> None:
    assert "autoscaler" not in next_steps(settings(), FOLDER)
    adapter = settings(max_sessions=8, autoscaler=Autoscaler.PROMETHEUS_ADAPTER)
    assert "deploy/echo/prometheus-adapter-values.yaml" in next_steps(adapter, FOLDER)
    keda = settings(max_sessions=8, autoscaler=Autoscaler.KEDA, prometheus_url="http://p.test")
    assert "Prometheus at http://p.test" in next_steps(keda, FOLDER)
