"""Which pods are taken for left behind."""

import pytest
from tests.support.services.kubernetes_cluster import TestCluster

from openenv.core.exceptions import ProviderError
from openenv.core.providers.kubernetes.cluster import Cluster
from openenv.core.providers.kubernetes.leftovers import STALE_AFTER_S, remove_leftovers
from openenv.core.providers.kubernetes.pod import PodSettings, pod_manifest, secret_manifest


@pytest.fixture
def api(cluster: TestCluster) -> Cluster:
    return Cluster(kubeconfig=cluster.kubeconfig)


def make_pod(api: Cluster, name: str, quiet_for_s: float) -> None:
    """Make a pod whose provider was last heard of some time ago."""
    settings = PodSettings(name, "registry.test/too-big:1", 8000)
    created = api.create_pod(pod_manifest(settings, api.now - quiet_for_s))
    api.create_secret(secret_manifest(settings, {"A": "1"}, created["metadata"]["uid"]))


def test_only_those_that_nobody_has_answered_for_are_removed_with_their_secrets(
    api: Cluster, cluster: TestCluster
) -> None:
    make_pod(api, "old", STALE_AFTER_S + 60)
    make_pod(api, "older", 10 * STALE_AFTER_S)
    make_pod(api, "young", STALE_AFTER_S - 60)

    assert sorted(remove_leftovers(api)) == ["old", "older"]
    assert set(cluster.pods()) == set(cluster.secrets()) == {"young"}
    assert remove_leftovers(api) == []


def test_this_machine_s_clock_does_not_matter(api: Cluster, cluster: TestCluster) -> None:
    cluster.api.skew_s = -86400
    api.pods("any=one")  # from whose answer the cluster's time is known
    make_pod(api, "young", 0)
    assert remove_leftovers(api) == []

    cluster.api.skew_s += STALE_AFTER_S + 60
    assert remove_leftovers(api) == ["young"]


def test_pods_of_others_are_left_alone(api: Cluster, cluster: TestCluster) -> None:
    make_pod(api, "old", 10 * STALE_AFTER_S)
    cluster.change_pod("old", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "helm"}}})
    assert remove_leftovers(api) == []


def test_a_pod_that_does_not_tell_is_left_alone(api: Cluster, cluster: TestCluster) -> None:
    make_pod(api, "old", 10 * STALE_AFTER_S)
    cluster.change_pod("old", {"metadata": {"annotations": {"openenv.dev/alive-at": "long ago"}}})
    assert remove_leftovers(api) == []


def test_without_the_right_to_list_nothing_is_removed(api: Cluster, cluster: TestCluster) -> None:
    make_pod(api, "old", 10 * STALE_AFTER_S)
    cluster.break_down("GET", "/pods$", 403, "pods is forbidden")
    with pytest.raises(ProviderError, match="list the pods"):
        remove_leftovers(api)
    assert set(cluster.pods()) == {"old"}
