"""Which cluster is meant, and what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.support.servers import PROGRAMS
from tests.support.services.kubernetes_cluster import NAMESPACE, TestCluster

from openenv.core.exceptions import ProviderError
from openenv.core.providers.kubernetes.cluster import Cluster
from openenv.core.providers.kubernetes.pod import PodSettings, pod_manifest

pytestmark = pytest.mark.needs("unshare")

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# A mount namespace of its own, in which the folder of a pod's service account can be made.
IN_A_POD = f"""
mount -t tmpfs none /var/run && mkdir -p {ACCOUNT} && cp "$ACCOUNT_FILES"/* {ACCOUNT} && exec "$@"
"""


def run_in_pod(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program where a pod's files and variables are."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("of-the-pod")
    (account / "namespace").write_text("training\n")
    trustme.CA().cert_pem.write_to_path(account / "ca.crt")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ACCOUNT_FILES": str(account),
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        **variables,
    }
    command = ["unshare", "--map-root-user", "--mount", "sh", "-ec", IN_A_POD, "sh", sys.executable]
    return subprocess.run(
        [*command, str(PROGRAMS / "in_cluster.py")], env=environment, capture_output=True, text=True, timeout=100
    )


def test_in_a_pod_its_own_cluster_is_meant_and_reached_directly(tmp_path: Path) -> None:
    finished = run_in_pod(tmp_path)
    assert finished.returncode == 0, finished.stderr

    namespace, reach, url, headers = json.loads(finished.stdout)
    assert (namespace, reach) == ("training", "pod")
    assert url == "wss://10.96.0.1:443/api/v1/namespaces/training/pods/p/portforward?ports=8000"
    assert headers == {"authorization": "bearer of-the-pod"}


def test_a_kubeconfig_in_a_pod_means_another_cluster(tmp_path: Path, cluster: TestCluster) -> None:
    finished = run_in_pod(tmp_path, KUBECONFIG=str(cluster.kubeconfig))
    assert finished.returncode == 0, finished.stderr
    namespace, reach, url, headers = json.loads(finished.stdout)
    assert (namespace, reach, headers) == (NAMESPACE, "forward", {"authorization": "Bearer of-the-tester"})
    assert url.startswith("ws://127.0.0.1:")


@pytest.fixture
def api(cluster: TestCluster) -> Cluster:
    return Cluster(kubeconfig=cluster.kubeconfig, request_timeout_s=30)


def manifest(**choice: Any) -> dict[str, Any]:
    return pod_manifest(PodSettings(**{"name": "p", "image": "registry.test/too-big:1", "port": 8000, **choice}), 0)


def test_an_object_is_made_once(api: Cluster) -> None:
    assert api.create_pod(manifest())["metadata"]["uid"]
    with pytest.raises(ProviderError, match="already exists"):
        api.create_pod(manifest())


def test_what_is_not_there_is_none_and_can_be_deleted(api: Cluster) -> None:
    assert api.pod("p") is None
    assert api.change_pod("p", {"metadata": {}}) is False
    api.delete_pod("p", 0)
    api.delete_secret("p")
    assert api.log("p", 100) == ""
    assert api.warnings_of("p") == []


def test_what_the_client_finds_invalid_is_not_sent(api: Cluster) -> None:
    with pytest.raises(ProviderError, match=r"create a pod in training[\s\S]*containerPort"):
        api.create_pod(manifest(changes={"spec": {"containers": [{"name": "server", "ports": [{}]}]}}))


def test_what_the_cluster_finds_invalid_is_told_in_its_words(api: Cluster, cluster: TestCluster) -> None:
    cluster.break_down("POST", "/pods$", 422, "spec.containers[0].image: Required value")
    with pytest.raises(ProviderError, match=r"refused to create a pod in training: spec.containers\[0\]"):
        api.create_pod(manifest())


def test_only_ones_own_pods_are_listed(api: Cluster) -> None:
    api.create_pod(manifest(labels={"team": "red"}))
    assert [pod["metadata"]["name"] for pod in api.pods("team=red")] == ["p"]
    assert api.pods("team=blue") == []


def test_a_watch_tells_of_changes_and_of_the_end(api: Cluster, cluster: TestCluster) -> None:
    api.create_pod(manifest())
    changes = api.changes_of_pod("p", 60)
    assert next(changes) is not None
    cluster.set_status("p", phase="Running")
    for seen in changes:  # what the node did may come first
        assert seen is not None
        if seen["status"]["phase"] == "Running":
            break
    cluster.delete_pod("p")
    assert next(changes) is None
    changes.close()  # type: ignore[attr-defined]


def test_a_watch_that_breaks_off_ends_quietly(api: Cluster, cluster: TestCluster) -> None:
    cluster.break_down("GET", "/pods$", 0)
    quick = Cluster(kubeconfig=cluster.kubeconfig, request_timeout_s=0.1)
    assert list(quick.changes_of_pod("p", 1)) == []


def test_a_watch_that_is_refused_is_an_error(api: Cluster, cluster: TestCluster) -> None:
    cluster.break_down("GET", "/pods$", 403, 'pods is forbidden: User "tester" cannot watch resource "pods"')
    with pytest.raises(ProviderError, match="cannot watch"):
        list(api.changes_of_pod("p", 1))


def test_the_time_is_the_cluster_s(api: Cluster, cluster: TestCluster) -> None:
    api.create_pod(manifest())
    cluster.api.skew_s = 3600
    before = api.now
    api.pod("p")
    assert 3590 < api.now - before < 3610


def test_an_answer_that_is_no_json(api: Cluster, cluster: TestCluster) -> None:
    cluster.break_down("GET", "/pods/p", 200, "\0not json")
    with pytest.raises(ProviderError, match="request to read the pod p could not be sent"):
        api.pod("p")
