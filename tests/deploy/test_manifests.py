"""The manifests: valid for every version that is promised, as safe as can be, and true of our servers."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import settings as effort
from prometheus_client.parser import text_string_to_metric_families
from tests.support.deployments import deployments
from tests.support.servers import PROGRAMS, eventually
from tests.support.services.kubernetes_tools import check_schema

from openenv.deploy.autoscaling import METRIC
from openenv.deploy.manifests import manifests
from openenv.deploy.settings import CLOSE_S, PRE_STOP_S, Affinity, Autoscaler, DeploymentSettings, Egress

ROOT = Path(__file__).resolve().parents[2]
ECHO = DeploymentSettings(name="echo", image="echo:1", max_sessions=64)
OF_OTHERS = {"ScaledObject", "PodMonitor"}
"""Kinds that others define; ``test_autoscaling.py`` checks them."""


def changed(**changes: Any) -> DeploymentSettings:
    return DeploymentSettings(**{**vars(ECHO), **changes})


def pod(settings: DeploymentSettings) -> dict[str, Any]:
    found: dict[str, Any] = manifests(settings)["deployment"]["spec"]["template"]["spec"]
    return found


def variables(settings: DeploymentSettings) -> dict[str, Any]:
    return {
        entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in pod(settings)["containers"][0]["env"]
    }


@given(deployments())
@effort(max_examples=8, deadline=None)
def test_whatever_is_chosen_the_objects_fit_the_schemas(settings: DeploymentSettings) -> None:
    for written in manifests(settings).values():
        if written["kind"] not in OF_OTHERS:
            check_schema(written)


def test_the_schema_check_finds_what_is_misspelt() -> None:
    written = manifests(ECHO)["deployment"]
    written["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        check_schema(written)


@given(deployments())
@effort(max_examples=20, deadline=None)
def test_whatever_is_chosen_pods_stay_as_locked_down_as_the_strictest_policy_wants(
    settings: DeploymentSettings,
) -> None:
    spec = pod(settings)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert all(set(volume) - {"name"} in ({"emptyDir"}, {"secret"}) for volume in spec["volumes"])
    (container,) = spec["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not any("hostPort" in port for port in container["ports"])


@given(deployments())
@effort(max_examples=20, deadline=None)
def test_objects_find_their_pods_and_ports(settings: DeploymentSettings) -> None:
    written = manifests(settings)
    labels = written["deployment"]["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in pod(settings)["containers"][0]["ports"]}

    assert written["deployment"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert written["service"]["spec"]["selector"].items() <= labels.items()
    assert written["disruption-budget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert written["network-policy"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert written["service"]["spec"]["ports"][0]["targetPort"] in ports
    assert written["network-policy"]["spec"]["ingress"][0]["ports"][0]["port"] in ports


def test_a_pod_is_left_the_time_that_its_server_needs() -> None:
    spec = pod(changed(drain_s=120))
    assert variables(changed(drain_s=120))["OPENENV_DRAIN_S"] == "120"
    assert spec["terminationGracePeriodSeconds"] == PRE_STOP_S + 120 + CLOSE_S
    assert spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] == PRE_STOP_S


def test_no_token_is_in_the_manifests_unless_asked_for() -> None:
    assert variables(ECHO)["OPENENV_TOKEN"] == {"secretKeyRef": {"name": "echo", "key": "token"}}
    assert "secret" not in manifests(ECHO)
    written = manifests(changed(token="for-all-to-see"))["secret"]
    assert (written["metadata"]["name"], written["stringData"]) == ("echo", {"token": "for-all-to-see"})


def test_values_that_are_not_to_be_seen_are_referred_to() -> None:
    settings = changed(secret="keys", secret_env=("API_KEY",), journal=True)
    assert variables(settings)["API_KEY"] == {"secretKeyRef": {"name": "keys", "key": "API_KEY"}}
    assert variables(settings)["OPENENV_JOURNAL"] == {"secretKeyRef": {"name": "keys", "key": "journal"}}
    assert "OPENENV_JOURNAL" not in variables(ECHO)


def test_an_autoscaler_decides_on_the_number_of_servers_alone() -> None:
    assert manifests(changed(replicas=3))["deployment"]["spec"]["replicas"] == 3
    assert "replicas" not in manifests(changed(autoscaler=Autoscaler.KEDA))["deployment"]["spec"]


def test_where_connections_go() -> None:
    assert manifests(ECHO)["service"]["spec"]["sessionAffinity"] == "ClientIP"
    assert "sessionAffinity" not in manifests(changed(affinity=Affinity.NONE))["service"]["spec"]


def test_who_may_connect() -> None:
    def peers(settings: DeploymentSettings) -> list[str]:
        first, *others = manifests(settings)["network-policy"]["spec"]["ingress"][0]["from"]
        assert first == {"podSelector": {}}
        return [other["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for other in others]

    assert peers(ECHO) == []
    assert peers(changed(allowed_namespaces=("train", "train", "web"))) == ["train", "web"]
    scaled = changed(allowed_namespaces=("train",), autoscaler=Autoscaler.PROMETHEUS_ADAPTER)
    assert peers(scaled) == ["train", "monitoring"]


def test_what_environments_may_connect_to() -> None:
    def policy(settings: DeploymentSettings) -> dict[str, Any]:
        spec: dict[str, Any] = manifests(settings)["network-policy"]["spec"]
        return spec

    assert policy(ECHO)["policyTypes"] == ["Ingress", "Egress"]
    assert policy(ECHO)["egress"] == []
    to_journal = policy(changed(journal=True))["egress"]
    assert [sorted({port["port"] for port in rule["ports"]}) for rule in to_journal] == [[53], [5432]]
    assert policy(changed(egress=Egress.ALL))["policyTypes"] == ["Ingress"]
    assert "egress" not in policy(changed(egress=Egress.ALL))


def test_a_server_is_what_the_manifests_take_it_for() -> None:
    """With the deployment's own variables it serves the probes without a token, and the metric with one."""
    plain = {name: value for name, value in variables(changed(drain_s=0)).items() if isinstance(value, str)}
    address = f"127.{os.getpid() % 250 + 1}.77.7"
    environment = {
        **plain,
        "OPENENV_TOKEN": "t",
        "POD_IP": address,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.Popen([sys.executable, str(PROGRAMS / "pod_server.py")], env=environment)
    try:
        # Its peer is of this machine; a proxy's header makes it a stranger, as everybody is to a pod.
        url = f"http://{address}:{plain['PORT']}"
        with httpx.Client(base_url=url, headers={"X-Forwarded-For": "192.0.2.7"}, trust_env=False) as http:
            eventually(lambda: is_up(http), "the server is up")
            container = pod(ECHO)["containers"][0]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert http.get(container[probe]["httpGet"]["path"]).status_code == 200
            assert http.get("/metrics").status_code == 401
            metrics = http.get("/metrics", headers={"Authorization": "Bearer t"}).text
        assert METRIC in {family.name for family in text_string_to_metric_families(metrics)}
        assert re.search(r"^openenv_sessions_capacity(\{\})? 64(\.0)?$", metrics, re.MULTILINE)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


def is_up(http: httpx.Client) -> bool:
    try:
        return http.get("/health").status_code == 200
    except httpx.TransportError:
        return False
