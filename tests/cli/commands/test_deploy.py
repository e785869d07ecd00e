"""``openenv deploy``."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.services.kubernetes_tools import check_schema, helm_template

TOKEN = "t" * 24


def written(folder: Path) -> dict[str, Any]:
    return {file.stem: yaml.safe_load(file.read_text()) for file in folder.glob("*.yaml")}


def test_an_environment_is_deployed_under_its_name(openenv: Any, tmp_path: Path) -> None:
    done = openenv("deploy", "k8s", "catch", "--image", "registry.test/catch:1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "kubectl apply --filename deploy/catch/manifests" in done.stdout

    objects = written(tmp_path / "deploy" / "catch" / "manifests")
    assert set(objects) == {"deployment", "service", "disruption-budget", "network-policy"}
    for entry in objects.values():
        check_schema(entry)
        assert entry["metadata"]["name"] == "catch"
    assert "registry.test/catch:1" in str(objects["deployment"])


def test_every_choice_reaches_the_manifests(openenv_here: Any, tmp_path: Path) -> None:
    choices = (
        *("--name", "my-catch", "--namespace", "rl", "--replicas", 2, "--max-replicas", 6, "--max-sessions", 100),
        *("--autoscale", "prometheus-adapter", "--monitoring-namespace", "watch", "--cpus", 2.5, "--memory", "3g"),
        *("--gpus", 1, "-e", "LEVEL=a=b", "--secret-env", "API_KEY", "--drain-s", 90, "--journal"),
        *("--affinity", "none"),
        *("--egress", "all", "--allow-namespace", "train", "--secret", "keys", "--user", 4242, "--writable-root"),
    )
    done = openenv_here("deploy", "k8s", "catch", "--image", "catch:1", "--output", "out", *choices)
    assert done.returncode == 0, done.stderr

    objects = written(tmp_path / "out" / "manifests")
    spec = objects["deployment"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    env = {entry["name"]: entry.get("value", "hidden") for entry in container["env"]}
    assert objects["service"]["metadata"]["name"] == "my-catch"
    assert objects["service"]["metadata"]["namespace"] == "rl"
    assert objects["autoscaler"]["spec"]["maxReplicas"] == 6
    assert objects["autoscaler"]["spec"]["minReplicas"] == 2
    assert container["resources"]["limits"] == {"cpu": "2500m", "memory": "3072Mi", "nvidia.com/gpu": "1"}
    assert (env["LEVEL"], env["MAX_CONCURRENT_ENVS"], env["OPENENV_DRAIN_S"]) == ("a=b", "100", "90")
    assert [env[name] for name in ("API_KEY", "OPENENV_TOKEN", "OPENENV_JOURNAL")] == ["hidden"] * 3
    assert "sessionAffinity" not in objects["service"]["spec"]
    assert objects["network-policy"]["spec"]["policyTypes"] == ["Ingress"]
    assert all(name in str(objects["network-policy"]) for name in ("watch", "train"))
    assert spec["securityContext"]["runAsUser"] == 4242
    assert container["securityContext"]["readOnlyRootFilesystem"] is False
    assert (tmp_path / "out" / "prometheus-adapter-values.yaml").exists()


def test_a_chart_is_written_for_helm(openenv_here: Any, tmp_path: Path) -> None:
    done = openenv_here(
        "deploy", "k8s", "catch", "--image", "catch:1", "--format", "chart", "-o", "out", "--replicas", 3
    )
    assert done.returncode == 0, done.stderr
    assert "helm upgrade --install catch out/chart" in done.stdout

    rendered = {entry["kind"]: entry for entry in helm_template(tmp_path / "out" / "chart", "catch", "rl", tmp_path)}
    assert rendered["Deployment"]["spec"]["replicas"] == 3


def test_a_token_is_written_only_if_asked_for(openenv_here: Any, tmp_path: Path) -> None:
    openenv_here("deploy", "k8s", "catch", "--image", "catch:1", "-o", "without")
    assert "secret" not in written(tmp_path / "without" / "manifests")

    done = openenv_here("deploy", "k8s", "catch", "--image", "catch:1", "-o", "with", "--with-token")
    token = written(tmp_path / "with" / "manifests")["secret"]["stringData"]["token"]
    assert len(token) == 32
    assert token not in done.stdout


@pytest.mark.parametrize("form", ["manifests", "chart"])
def test_named_tokens_are_a_secret_that_servers_have_as_a_folder(openenv_here: Any, tmp_path: Path, form: str) -> None:
    (tmp_path / "of the team.toml").write_text(f'[trainer]\ntoken = "{TOKEN}"\nrole = "play"\n')
    choice = ("--tokens", "of the team.toml", "--secret", "keys", "--format", form)
    done = openenv_here("deploy", "k8s", "catch", "--image", "catch:1", "-o", "out", *choice)
    assert "create secret generic keys-tokens --namespace default" in done.stdout
    assert "--from-file=tokens.toml='of the team.toml'" in done.stdout
    assert not any(TOKEN in file.read_text() for file in (tmp_path / "out").rglob("*.*"))
    folder = tmp_path / "out" / form
    if form == "chart":
        objects = {entry["kind"].lower(): entry for entry in helm_template(folder, "catch", "default", tmp_path)}
    else:
        objects = written(folder)
    spec = objects["deployment"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert {"name": "OPENENV_TOKENS", "value": "/etc/openenv/tokens/tokens.toml"} in container["env"]
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "tokens")
    assert mount == {"name": "tokens", "mountPath": "/etc/openenv/tokens", "readOnly": True}
    assert {"name": "tokens", "secret": {"secretName": "keys-tokens", "defaultMode": 0o440}} in spec["volumes"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("k8s", "catch"), 2, "--image"),
        (("nomad", "catch", "--image", "x"), 2, "nomad"),
        (("k8s", "no-such-game", "--image", "x"), 2, "no-such-game"),
        (("k8s", "catch", "--image", "x", "--env-var", "LEVEL"), 2, "NAME=VALUE"),
        (("k8s", "catch", "--image", "x", "--autoscale", "keda"), 1, "number of sessions"),
        (("k8s", "catch", "--image", "x", "--memory", "much"), 1, "'much'"),
        (("k8s", "catch", "--image", "x", "--name", "My_Name"), 1, "'My_Name'"),
        (("k8s", "catch", "--image", "x", "--tokens", "nowhere.toml"), 1, "nowhere.toml"),
        (("k8s", "catch", "--image", "x", "-e", "OPENENV_TOKENS=a"), 1, "other settings set it"),
    ],
)
def test_what_makes_no_sense_is_refused(
    openenv_here: Any, tmp_path: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = openenv_here("deploy", *arguments)
    assert done.returncode == status
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
