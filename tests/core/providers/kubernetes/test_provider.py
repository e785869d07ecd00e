"""A provider and a cluster whose pods are real servers: what clients, operators and attackers see of it."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from tests.support.environments.common import GOAL
from tests.support.processes import wait_until_gone
from tests.support.servers import PROGRAMS, eventually
from tests.support.services.kubernetes_cluster import NAMESPACE, TestCluster, decoded, wait_for_pod
from tests.support.snippets import blocks_of

from openenv.core.client_types import StepResult
from openenv.core.containers.runtime import KubernetesProvider
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ProviderError,
    ServerNotReadyError,
    ServerUnauthorizedError,
)
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.kubernetes.cluster import Cluster
from openenv.core.providers.resources import Resources

COUNTER = "registry.test/counter:1"
HEALTHY = "registry.test/healthy:1"
# What makes a server take a client for one of another machine, which needs the token.
THROUGH_A_PROXY = {"X-Forwarded-For": "192.0.2.7"}
REACHES = ("pod", "forward")
PATIENCE_S = 3.0
"""For an API that hangs, though long enough for one that is held up by a busy machine."""
PAGE = Path(__file__).resolve().parents[4] / "docs" / "kubernetes.md"


def made(cluster: TestCluster, image: str | None = HEALTHY, **settings: Any) -> KubernetesProvider:
    return KubernetesProvider(image, kubeconfig=cluster.kubeconfig, **{"reach": "pod", **settings})


@contextlib.contextmanager
def launched(cluster: TestCluster, **settings: Any) -> Iterator[tuple[KubernetesProvider, str]]:
    provider = made(cluster, **settings)
    try:
        yield provider, provider.launch()
    finally:
        provider.shut_down()


class LongLived(NamedTuple):
    """A pod with a real server, which several tests share, and the two ways to it."""

    provider: KubernetesProvider
    cluster: TestCluster
    forwarded: str
    direct: str


@pytest.fixture(scope="module")
def long_lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongLived]:
    with (
        TestCluster(tmp_path_factory.mktemp("cluster")) as cluster,
        launched(cluster, image=COUNTER, reach="forward") as (provider, url),
    ):
        address = next(iter(cluster.pods().values()))["status"]["podIP"]
        yield LongLived(provider, cluster, url, f"http://{address}:8000")


def container(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("reach", REACHES)
def test_a_client_plays_episodes_in_a_pod(cluster: TestCluster, reach: str) -> None:
    with GenericEnvClient(provider=made(cluster, COUNTER, reach=reach), headers=THROUGH_A_PROXY).sync() as env:
        for _ in range(3):
            env.reset(seed=1)
            results = [env.step({"amount": 1}) for _ in range(GOAL)]

            assert [result.observation["total"] for result in results] == list(range(1, GOAL + 1))
            assert results[-1].done
        pod = wait_for_pod(cluster)
        pid = cluster.node.pid(pod)

    wait_until_gone(pid, timeout_s=60)
    assert cluster.pods() == {}
    assert cluster.secrets() == {}


def test_many_sessions_share_a_pod(long_lived: LongLived) -> None:
    async def play() -> list[int]:
        async with GenericEnvClient(long_lived.forwarded, token=long_lived.provider.token) as client:
            games = await client.vector(32)
            await games.reset(seeds=range(32))
            results = await games.step([{"amount": number + 1} for number in range(32)])
            return [result.observation["total"] for result in results if isinstance(result, StepResult)]

    assert asyncio.run(play()) == list(range(1, 33))
    assert len(long_lived.cluster.pods()) == 1


def test_the_handle_of_from_docker_image_starts_a_pod(cluster: TestCluster) -> None:
    handle = GenericEnvClient.from_docker_image(COUNTER, provider=made(cluster, image=None))
    with handle.sync() as env:
        assert env.reset().observation["total"] == 0
        assert wait_for_pod(cluster).startswith("openenv-counter-")
    assert cluster.pods() == {}


@pytest.mark.parametrize("way", ["forwarded", "direct"])
def test_nobody_plays_without_the_token_that_the_provider_made(long_lived: LongLived, way: str) -> None:
    url = getattr(long_lived, way)
    assert len(str(long_lived.provider.token)) == 32
    assert httpx.get(f"{url}/schema", headers=THROUGH_A_PROXY).status_code == 401
    allowed = {**THROUGH_A_PROXY, "Authorization": f"Bearer {long_lived.provider.token}"}
    assert httpx.get(f"{url}/schema", headers=allowed).status_code == 200
    with pytest.raises(ServerUnauthorizedError), GenericEnvClient(url, token="another").sync() as env:
        env.reset()


def test_secrets_are_in_a_secret_and_nowhere_else(cluster: TestCluster) -> None:
    with launched(cluster, env_vars={"LEVEL": "3"}, secrets={"API_KEY": "hush-hush"}) as (provider, _):
        name = wait_for_pod(cluster)
        pod, secret = cluster.pods()[name], cluster.secrets()[name]

        assert decoded(secret) == {"API_KEY": "hush-hush", "OPENENV_TOKEN": provider.token}
        assert str(provider.token) not in json.dumps(pod)
        assert "hush-hush" not in json.dumps(pod)
        assert {"name": "LEVEL", "value": "3"} in container(pod)["env"]
        owner = secret["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", name, pod["metadata"]["uid"])
        assert secret["immutable"] is True


def test_a_token_of_ones_own_is_kept_and_hidden(cluster: TestCluster) -> None:
    with launched(cluster, env_vars={"OPENENV_TOKEN": "of-my-own"}) as (provider, _):
        assert provider.token == "of-my-own"
        assert "of-my-own" not in json.dumps(cluster.pods())


def test_start_container_takes_secrets_and_variables_of_its_own(cluster: TestCluster) -> None:
    provider = made(cluster, env_vars={"A": "1", "B": "1"}, secrets={"C": "1"})
    provider.start_container(env_vars={"B": "2"}, secrets={"C": "2", "A": "3"})
    try:
        name = wait_for_pod(cluster)
        env = {entry["name"]: entry.get("value") for entry in container(cluster.pods()[name])["env"]}
        assert (env["A"], env["B"], env["C"]) == (None, "2", None)
        assert decoded(cluster.secrets()[name]) == {"A": "3", "C": "2", "OPENENV_TOKEN": provider.token}
    finally:
        provider.stop_container()


def test_the_pod_is_as_locked_down_as_the_strictest_policy_wants(cluster: TestCluster) -> None:
    with launched(cluster, resources=Resources(cpus=0.5, memory="512m"), lifetime_s=90):
        spec = next(iter(cluster.pods().values()))["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 1000
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    context = spec["containers"][0]["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "512Mi"}
    assert spec["activeDeadlineSeconds"] == 90


def test_what_a_cluster_needs_of_its_own_is_laid_over_the_pod(cluster: TestCluster) -> None:
    changes = {
        "metadata": {"annotations": {"team": "red"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "containers": [{"name": "server", "imagePullPolicy": "Never"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }
    with launched(cluster, pod=changes, labels={"network": "none"}):
        pod = next(iter(cluster.pods().values()))

    assert pod["metadata"]["annotations"]["team"] == "red"
    assert "openenv.dev/alive-at" in pod["metadata"]["annotations"]
    assert pod["metadata"]["labels"]["network"] == "none"
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["scratch", "data"]
    assert container(pod)["image"] == HEALTHY
    assert container(pod)["imagePullPolicy"] == "Never"


def test_a_misspelt_field_of_the_pod_is_an_error_and_leaves_nothing(cluster: TestCluster) -> None:
    with pytest.raises(ProviderError, match="nodeSelectr"):
        made(cluster, pod={"spec": {"nodeSelectr": {"disk": "fast"}}}).launch()
    assert cluster.pods() == {}


def test_an_image_that_is_not_there(cluster: TestCluster) -> None:
    with pytest.raises(ProviderError) as caught:
        made(cluster, image="registry.test/cuonter:1").launch()

    message = str(caught.value)
    assert "ImagePullBackOff: Back-off pulling image" in message
    assert 'Failed: failed to pull and unpack image "registry.test/cuonter:1": not found' in message
    assert cluster.pods() == {}
    assert cluster.secrets() == {}


def test_a_server_that_crashes_shows_the_end_of_its_log(cluster: TestCluster) -> None:
    with pytest.raises(ProviderError, match="no such module: numpty") as caught:
        made(cluster, image="registry.test/broken:1").launch()

    assert "CrashLoopBackOff" in str(caught.value)
    assert "the server ended with exit status 1" in str(caught.value)
    assert caught.value.logs == "no such module: numpty"
    assert cluster.pods() == {}


def test_a_server_that_ends_at_once(cluster: TestCluster) -> None:
    with pytest.raises(ProviderError, match="the server ended with exit status 0"):
        made(cluster, image="registry.test/short:1").launch()
    assert cluster.pods() == {}


def test_a_server_that_never_answers(cluster: TestCluster) -> None:
    provider = made(cluster, image="registry.test/silent:1")
    url = provider.start_container()
    eventually(lambda: "thinking" in provider.logs(), "the server has printed something")
    try:
        with pytest.raises(ServerNotReadyError, match="thinking"):
            provider.wait_for_ready(url, timeout_s=0.5)
    finally:
        provider.stop_container()
    assert cluster.pods() == {}


def test_a_pod_that_fits_no_node(cluster: TestCluster) -> None:
    with pytest.raises(ServerNotReadyError) as caught:
        made(cluster, image="registry.test/too-big:1", start_timeout_s=1).launch()

    assert "Unschedulable: 0/3 nodes are available: 3 Insufficient memory." in str(caught.value)
    assert "FailedScheduling" in str(caught.value)
    assert isinstance(caught.value, TimeoutError)
    assert cluster.pods() == {}


def test_a_pod_that_somebody_deletes_while_it_starts(cluster: TestCluster) -> None:
    provider = made(cluster, image="registry.test/too-big:1")
    with deleting_the_first_pod(cluster), pytest.raises(ProviderError, match="it was deleted"):
        provider.launch()


@contextlib.contextmanager
def deleting_the_first_pod(cluster: TestCluster) -> Iterator[None]:
    deleter = threading.Thread(target=lambda: cluster.delete_pod(wait_for_pod(cluster)))
    deleter.start()
    yield
    deleter.join(60)


def test_a_pod_that_dies_while_clients_play(cluster: TestCluster) -> None:
    with launched(cluster) as (provider, _):
        provider.check_alive()
        status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
        cluster.set_status(str(provider.pod_name), **status)

        with pytest.raises(ProviderError, match="Evicted: The node was low on memory") as caught:
            provider.check_alive()
        assert "as healthy as can be" in str(caught.value.logs)


def test_a_server_that_is_started_again_counts_as_alive(cluster: TestCluster) -> None:
    with launched(cluster) as (provider, _):
        again = {"name": "server", "restartCount": 1, "state": {"running": {}}}
        cluster.set_status(str(provider.pod_name), containerStatuses=[again])

        provider.check_alive()


def test_a_quota_that_is_used_up(cluster: TestCluster) -> None:
    quota = 'pods "p" is forbidden: exceeded quota: small, requested: pods=1, used: pods=8, limited: pods=8'
    cluster.break_down("POST", "/pods$", 403, quota)

    with pytest.raises(ProviderError, match="exceeded quota: small") as caught:
        made(cluster).launch()
    assert "rights" not in str(caught.value)


def test_an_account_without_rights_is_told_where_they_are_listed(cluster: TestCluster) -> None:
    cluster.break_down("POST", "/pods$", 403, 'pods is forbidden: User "tester" cannot create resource "pods"')

    with pytest.raises(ProviderError, match=r"cannot create resource.*docs/kubernetes.md"):
        made(cluster).launch()


def test_the_rights_that_the_page_lists_are_those_that_are_used(cluster: TestCluster) -> None:
    with launched(cluster, reach="forward"), pytest.raises(ProviderError):
        made(cluster, image="registry.test/broken:1").launch()
    with launched(cluster) as (provider, _):
        assert Cluster(kubeconfig=cluster.kubeconfig).change_pod(str(provider.pod_name), {"metadata": {}})

    (role,) = [block for block in blocks_of(PAGE) if block.language == "yaml"]
    listed = {
        (verb, resource)
        for rule in yaml.safe_load(role.text)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # Newer clusters want it for what older ones call get.
    assert listed - {("create", "pods/portforward")} == cluster.api.used


def test_no_rights_to_make_a_secret_leaves_no_pod(cluster: TestCluster) -> None:
    cluster.break_down("POST", "/secrets$", 403, "secrets is forbidden")

    with pytest.raises(ProviderError, match="create a Secret"):
        made(cluster).launch()
    assert cluster.pods() == {}


def test_no_rights_to_read_events_or_logs_is_no_trouble_of_its_own(cluster: TestCluster) -> None:
    cluster.break_down("GET", "/events$", 403, "events is forbidden")
    cluster.break_down("GET", "/log$", 403, "pods/log is forbidden")

    with pytest.raises(ProviderError, match="CrashLoopBackOff") as caught:
        made(cluster, image="registry.test/broken:1").launch()
    assert caught.value.logs is None


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/pods$"), ("POST", "/secrets$"), ("GET", "/pods$")],
    ids=["create", "secret", "watch"],
)
def test_an_api_that_hangs_is_waited_for_no_longer_than_agreed(cluster: TestCluster, method: str, path: str) -> None:
    cluster.break_down(method, path, 0)
    provider = made(cluster, image="registry.test/too-big:1", request_timeout_s=PATIENCE_S, start_timeout_s=1)

    with pytest.raises(ProviderError):
        provider.launch()
    assert cluster.pods() == {}


def test_an_api_that_hangs_on_the_way_out_can_be_asked_again(cluster: TestCluster) -> None:
    provider = made(cluster, request_timeout_s=PATIENCE_S)
    provider.launch()
    cluster.break_down("DELETE", "/pods/", 0)
    with pytest.raises(ProviderError, match="gave no answer"):
        provider.stop_container()

    cluster.repair()
    provider.stop_container()
    assert cluster.pods() == {}


def test_a_cluster_that_is_not_there(cluster: TestCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    text = cluster.kubeconfig.read_text()
    cluster.kubeconfig.write_text(text.replace(f":{_port(text)}", f":{nobody}"))

    with pytest.raises(ProviderError, match="gave no answer"):
        made(cluster).launch()


def _port(kubeconfig: str) -> int:
    line = next(line for line in kubeconfig.splitlines() if "server:" in line)
    return int(line.rpartition(":")[2])


def test_without_a_kubeconfig(cluster: TestCluster) -> None:
    cluster.kubeconfig.unlink()
    with pytest.raises(ProviderError, match=r"Expected a kubeconfig .*kubeconfig.yaml"):
        made(cluster)


def test_an_unknown_context(cluster: TestCluster) -> None:
    with pytest.raises(ProviderError, match="staging"):
        made(cluster, context="staging")


def test_the_namespace_is_the_contexts_unless_another_is_asked_for(cluster: TestCluster) -> None:
    assert made(cluster).namespace == NAMESPACE
    assert made(cluster, namespace="other").namespace == "other"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reach": "node-port"}, "'pod' or 'forward'"),
        ({"namespace": "Not_A_Name"}, "got 'Not_A_Name'"),
        ({"user": 0}, "other than root"),
    ],
)
def test_settings_that_make_no_sense(cluster: TestCluster, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        made(cluster, **settings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image": None}, "Expected an image"),
        ({"port": 8123}, "container_port"),
        ({"replicas": 2}, "replicas"),
    ],
)
def test_starts_that_make_no_sense(cluster: TestCluster, arguments: dict[str, Any], message: str) -> None:
    provider = made(cluster, image=None)
    with pytest.raises(ConfigurationError, match=message):
        provider.start_container(**{"image": HEALTHY, **arguments})
    assert cluster.pods() == {}


def test_a_limit_of_processes_is_refused(cluster: TestCluster) -> None:
    with pytest.raises(ConfigurationError, match="podPidsLimit"):
        made(cluster, resources=Resources(pids=64)).launch()


def test_one_provider_has_one_pod(cluster: TestCluster) -> None:
    with launched(cluster) as (provider, _):
        with pytest.raises(ProviderError, match="is there already"):
            provider.start_container()
        assert len(cluster.pods()) == 1


def test_a_provider_starts_another_pod_after_the_first(cluster: TestCluster) -> None:
    provider = made(cluster)
    provider.launch()
    first, token = provider.pod_name, provider.token
    provider.stop_container()
    provider.stop_container()
    assert [provider.token, provider.pod_name, provider.logs()] == [None, None, ""]

    provider.launch()
    try:
        assert provider.pod_name not in (None, first)
        assert provider.token not in (None, token)
    finally:
        provider.shut_down()
    assert cluster.pods() == {}


def test_stopping_a_pod_that_is_gone_already(cluster: TestCluster) -> None:
    provider = made(cluster)
    provider.launch()
    cluster.delete_pod(str(provider.pod_name))
    provider.stop_container()


def test_a_chosen_port_of_this_machine(cluster: TestCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
        with pytest.raises(ProviderError, match=f"Can't listen on 127.0.0.1:{free}"):
            made(cluster, reach="forward").start_container(port=free)
        assert cluster.pods() == {}

    provider = made(cluster, reach="forward")
    try:
        assert provider.start_container(port=free) == f"http://127.0.0.1:{free}"
    finally:
        provider.stop_container()


def test_a_forwarded_port_is_of_this_machine_only_and_ends_with_the_pod(cluster: TestCluster) -> None:
    with launched(cluster, reach="forward") as (_, url):
        address = urlsplit(url)
        assert address.hostname == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.port or 0)))


def test_a_cut_tunnel_loses_no_step(long_lived: LongLived) -> None:
    tunnel = long_lived.provider._tunnel
    assert tunnel is not None
    with GenericEnvClient(long_lived.forwarded, token=long_lived.provider.token).sync() as env:
        env.reset()
        for expected in range(1, GOAL + 1):
            result = env.step({"amount": 1})
            assert result.observation["total"] == expected
            if expected % 4 == 0:
                tunnel.cut()  # as an API server does that is restarted


def test_a_cluster_that_forwards_nothing_is_named_by_the_client(cluster: TestCluster) -> None:
    with launched(cluster, reach="forward") as (_, url):
        cluster.break_down("GET", "/portforward$", 403, "pods/portforward is forbidden")
        with pytest.raises(ConnectionFailedError), GenericEnvClient(url).sync() as env:
            env.reset()


def client_process(cluster: TestCluster, then: str) -> subprocess.Popen[str]:
    program = str(PROGRAMS / "pod_client.py")
    command = [sys.executable, program, str(cluster.kubeconfig), HEALTHY, then]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_pod_goes_with_the_interpreter_that_started_it(cluster: TestCluster) -> None:
    with client_process(cluster, "leave") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("openenv-healthy-")
        assert process.wait(60) == 0
    assert cluster.pods() == {}
    assert cluster.secrets() == {}


def test_the_pod_of_a_killed_client_is_removed_by_the_next_start(cluster: TestCluster) -> None:
    with client_process(cluster, "wait") as process:
        assert process.stdout is not None
        left_behind = process.stdout.readline().strip()
        process.kill()
    assert set(cluster.pods()) == {left_behind}

    assert made(cluster).reap() == []  # its client might only be slow
    eleven_minutes_ago = str(round(time.time() - 660))
    cluster.change_pod(left_behind, {"metadata": {"annotations": {"openenv.dev/alive-at": eleven_minutes_ago}}})
    with launched(cluster) as (provider, _):
        assert set(cluster.pods()) == {provider.pod_name}
        assert set(cluster.secrets()) == {provider.pod_name}
