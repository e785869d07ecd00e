"""A provider says that it lives, for as long as it does."""

import logging
import threading

import pytest
from tests.support.servers import eventually
from tests.support.services.kubernetes_cluster import TestCluster

from openenv.core.providers.kubernetes.cluster import Cluster
from openenv.core.providers.kubernetes.heartbeat import Heartbeat
from openenv.core.providers.kubernetes.pod import PodSettings, alive_at, pod_manifest


@pytest.fixture
def pod(cluster: TestCluster) -> str:
    api = Cluster(kubeconfig=cluster.kubeconfig)
    api.create_pod(pod_manifest(PodSettings("p", "registry.test/too-big:1", 8000), 0))
    return "p"


def test_the_time_is_written_until_it_is_stopped(cluster: TestCluster, pod: str) -> None:
    api = Cluster(kubeconfig=cluster.kubeconfig)
    api.pod(pod)  # from whose answer the cluster's time is known
    heartbeat = Heartbeat(api, pod, interval_s=0.01)
    eventually(lambda: abs((alive_at(cluster.pods()[pod]) or 0) - api.now) < 120, "the time is written")

    heartbeat.stop()
    heartbeat.stop()
    wait_for_end(heartbeat)
    written = len(cluster.requests("PATCH", "/pods/p"))
    assert written > 0


def test_a_cluster_that_refuses_is_asked_again(
    cluster: TestCluster, pod: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.break_down("PATCH", "/pods/", 503, "etcd is electing")
    with caplog.at_level(logging.WARNING, "openenv"):
        heartbeat = Heartbeat(Cluster(kubeconfig=cluster.kubeconfig), pod, interval_s=0.01)
        eventually(lambda: "etcd is electing" in caplog.text, "the refusal is told")
    cluster.repair()
    eventually(lambda: alive_at(cluster.pods()[pod]) != 0, "the time is written after all")
    heartbeat.stop()
    wait_for_end(heartbeat)


def test_it_ends_with_the_pod(cluster: TestCluster, pod: str) -> None:
    heartbeat = Heartbeat(Cluster(kubeconfig=cluster.kubeconfig), pod, interval_s=0.01)
    cluster.delete_pod(pod)
    wait_for_end(heartbeat)


def wait_for_end(heartbeat: Heartbeat) -> None:
    assert isinstance(heartbeat._thread, threading.Thread)
    heartbeat._thread.join(60)
    assert not heartbeat._thread.is_alive()
