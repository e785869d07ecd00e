"""``KubernetesProvider``: a server in a pod, for as long as its client lives."""

import logging
import secrets as random_secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from openenv.core.addresses import url_of
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError
from openenv.core.providers.base import LOG_END, READY_TIMEOUT_S, ContainerProvider, token_for
from openenv.core.providers.kubernetes.cluster import REQUEST_TIMEOUT_S, Cluster
from openenv.core.providers.kubernetes.heartbeat import Heartbeat
from openenv.core.providers.kubernetes.leftovers import STALE_AFTER_S, remove_leftovers
from openenv.core.providers.kubernetes.manifests import (
    CONTAINER_PORT,
    USER,
    Manifest,
    check_name,
    image_name,
    name_from,
)
from openenv.core.providers.kubernetes.pod import PodSettings, pod_manifest, secret_manifest
from openenv.core.providers.kubernetes.pod_status import address, failure, has_restarted, is_running, obstacle
from openenv.core.providers.kubernetes.tunnel import HOST, Tunnel
from openenv.core.providers.resources import Resources
from openenv.core.wire.names import TOKEN_VARIABLE

logger = logging.getLogger(__name__)

Reach = Literal["pod", "forward"]

_WEEK_S = 7 * 24 * 3600.0
_HEARTBEAT_S = 60.0
_WATCH_S = 60.0
_PAUSE_S = 0.5
_ROOM = 40


class KubernetesProvider(ContainerProvider):
    """Starts a server in a pod of a Kubernetes cluster, and removes it.

    A pod holds as many sessions as its server does. Within the cluster, clients reach it at its own address. From
    outside, a port of 127.0.0.1 is forwarded to it through the cluster's API, as ``kubectl port-forward`` does: enough
    for trying things out, slower than a network of one's own, and as public as this machine's loopback is.

    The pod runs as a user other than root, without rights, a service account's credentials or a way to write the
    image's files. Its token and ``secrets`` are in a Secret that Kubernetes removes with the pod.

    The pod is gone after ``stop_container``, after an error while it starts, and when the interpreter ends. After a
    ``kill -9`` of this process it stays until any provider starts a pod in the namespace more than ten minutes later,
    or ``reap`` is called; ``lifetime_s`` ends it in any case.

    Args:
        image: Image to start where ``start_container`` is given none.
        namespace: Where to start it; by default the kubeconfig's, or that of the pod that this runs in.
        resources: What the server may take. The pod is promised the same.
        env_vars: Environment variables of the server that every reader of pods may read.
        secrets: Those that only the pod is to read.
        reach: How clients get to the pod: ``pod`` for its own address, ``forward`` for a port of this machine; by
            default the former where this runs in a pod of the cluster.
        container_port: Where the image listens; it learns the number from the variable ``PORT``.
        start_timeout_s: Seconds for the pod to find a node, pull the image and start the server's process.
        grace_s: Seconds that the server has to end.
        request_timeout_s: Seconds that the cluster's API may take for an answer.
        lifetime_s: Seconds after which Kubernetes ends the pod in any case; ``None`` for never.
        user: Number of the user that the server runs as.
        read_only_root: Whether the image's files can't be written; ``/tmp`` can.
        labels: Further labels of the pod, as for a NetworkPolicy to find it.
        pod: What to lay over the pod's manifest, as ``kubectl apply`` does: tolerations, a node selector, a runtime
            class, volumes. The server's container is called ``server``.
        kubeconfig: File with the cluster's address and credentials; by default what ``KUBECONFIG`` says, or
            ``~/.kube/config``, or else the service account of the pod that this runs in.
        context: Context of the kubeconfig; the current one if ``None``.

    Raises:
        ConfigurationError: A name or an amount is none.
        ImportError: The Kubernetes client is not installed.
        ProviderError: There is no kubeconfig, and this does not run in a pod.

    Example::

        provider = KubernetesProvider(namespace="training", resources=Resources(cpus=2, memory="4g"))
        with EchoEnv.from_docker_image("registry.example.com/echo-env:1.0", provider=provider).sync() as env:
            env.reset()
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        namespace: str | None = None,
        resources: Resources | None = None,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        reach: Reach | None = None,
        container_port: int = CONTAINER_PORT,
        start_timeout_s: float = 300.0,
        grace_s: float = 5.0,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        lifetime_s: float | None = _WEEK_S,
        user: int = USER,
        read_only_root: bool = True,
        labels: Mapping[str, str] | None = None,
        pod: Mapping[str, Any] | None = None,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
    ) -> None:
        if namespace is not None:
            check_name(namespace, "namespace")
        if reach not in (None, "pod", "forward"):
            raise ConfigurationError(f"Expected reach to be 'pod' or 'forward', got {reach!r}.")
        if user == 0:
            raise ConfigurationError("Expected the number of a user other than root, got 0; 1000 is the default.")
        self.image = image
        self.resources = resources or Resources()
        self.env_vars = dict(env_vars or {})
        self.secrets = dict(secrets or {})
        self.container_port = container_port
        self.start_timeout_s = start_timeout_s
        self.grace_s = grace_s
        self.lifetime_s = lifetime_s
        self.user = user
        self.read_only_root = read_only_root
        self.labels = dict(labels or {})
        self.pod_changes = dict(pod or {})
        self._cluster = Cluster(namespace, context, kubeconfig, request_timeout_s)
        self.reach: Reach = reach or ("pod" if self._cluster.is_around else "forward")
        self._token: str | None = None
        self._pod: str | None = None
        self._heartbeat: Heartbeat | None = None
        self._tunnel: Tunnel | None = None
        self._is_ready = False

    @property
    def namespace(self) -> str:
        """Where pods are started."""
        return self._cluster.namespace

    @property
    def pod_name(self) -> str | None:
        """Name of the pod; ``None`` while there is none."""
        return self._pod

    @property
    def token(self) -> str | None:
        """What clients of the server must send; ``None`` before it was started."""
        return self._token

    def start_container(
        self,
        image: str | None = None,
        port: int | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> str:
        """Start a pod and wait until the server's process runs, though it may not answer yet.

        Args:
            image: Image to start; the constructor's if ``None``.
            port: With a forwarded port: which of this machine's it is to be; a free one is taken if ``None``.
            env_vars: Environment variables of the server, on top of the constructor's.
            secrets: Those that only the pod is to read, on top of the constructor's.
            **kwargs: There are none; this signature is every provider's.

        Returns:
            The server's address.

        Raises:
            ConfigurationError: There is no image, or a port can't be chosen.
            ProviderError: The pod can't run; the error has what Kubernetes says and the end of the log. Or this
                provider has started one already.
            ServerNotReadyError: It did not run in time; the error says what it waited for.
        """
        self._check_start(image or self.image, port, kwargs)
        settings, values = self._settings(str(image or self.image), env_vars or {}, secrets or {})
        self._remove_leftovers()
        self._pod, self._is_ready = settings.name, False
        self._stop_at_exit()
        try:
            created = self._cluster.create_pod(pod_manifest(settings, self._cluster.now))
            self._cluster.create_secret(secret_manifest(settings, values, created["metadata"]["uid"]))
            self._heartbeat = Heartbeat(self._cluster, settings.name, _HEARTBEAT_S)
            base_url = self._address(self._wait_until_running(settings.name), settings, port)
        except BaseException:
            self._clean_up_after_failure()
            raise
        self._token = values[TOKEN_VARIABLE]
        return base_url

    def stop_container(self) -> None:
        """Delete the pod and its Secret. Without one this does nothing.

        The server then has ``grace_s`` to end; the call does not wait for that.

        Raises:
            ProviderError: The cluster refused, or did not answer: the pod may be there still. Call this again, or leave
                it to ``reap``.
        """
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._tunnel is not None:
            self._tunnel.close()
        self._heartbeat = self._tunnel = None
        if self._pod is not None:
            self._cluster.delete_pod(self._pod, self.grace_s)
            self._cluster.delete_secret(self._pod)
        self._pod = self._token = None
        self._stopped()

    def wait_for_ready(self, base_url: str, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Block until the server answers ``GET /health``.

        Args:
            base_url: What ``start_container`` returned.
            timeout_s: Seconds to wait at most.

        Raises:
            ProviderError: The server ended before it was ready.
            ServerNotReadyError: The server was not ready in time; a ``TimeoutError`` too.
        """
        super().wait_for_ready(base_url, timeout_s)
        self._is_ready = True

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with what Kubernetes says and the end of the log if the pod can't serve any more.

        A server that crashed and was started again counts as alive, unless it was never ready.
        """
        if self._pod is not None:
            self._checked(self._pod, self._cluster.pod(self._pod))

    def logs(self, size: int = LOG_END) -> str:
        """Return the end of what the server has printed; empty where the cluster does not tell.

        Args:
            size: How many characters, at most.
        """
        return "" if self._pod is None else self._cluster.log(self._pod, size)

    def reap(self, stale_after_s: float = STALE_AFTER_S) -> list[str]:
        """Delete the pods of the namespace whose providers are gone without having removed them.

        Providers say once a minute, in an annotation of their pods, that they live. Every start does this too.

        Args:
            stale_after_s: Seconds for which a provider must not have been heard of.

        Returns:
            The names of the pods.

        Raises:
            ProviderError: The cluster refused, or did not answer.
        """
        return remove_leftovers(self._cluster, stale_after_s)

    def close(self) -> None:
        """Close the connections to the cluster's API."""
        self._cluster.close()

    def _check_start(self, image: str | None, port: int | None, unknown: Mapping[str, Any]) -> None:
        if unknown:
            raise ConfigurationError(
                "KubernetesProvider.start_container takes image, port, env_vars and secrets, but got "
                f"{', '.join(unknown)} too. The rest is set where the provider is made."
            )
        if not image:
            raise ConfigurationError("Expected an image, here or where the provider was made, got none.")
        if port is not None and self.reach == "pod":
            raise ConfigurationError(
                f"Expected no port, got {port}: a pod has an address of its own, and its port is the provider's "
                f"container_port ({self.container_port}). Ports of this machine are for reach='forward'."
            )
        if self._pod is not None:
            raise ProviderError(f"The pod {self._pod} is there already; stop it before you start the next one.")

    def _settings(
        self, image: str, env_vars: Mapping[str, str], secrets: Mapping[str, str]
    ) -> tuple[PodSettings, dict[str, str]]:
        """Put together what the pod is to be like, and the values that are not to be seen."""
        variables = {**self.env_vars, **env_vars}
        hidden = {**self.secrets, **secrets}
        hidden[TOKEN_VARIABLE] = token_for({**variables, **hidden})
        settings = PodSettings(
            name=f"openenv-{name_from(image_name(image), _ROOM)}-{random_secrets.token_hex(4)}",
            image=image,
            port=self.container_port,
            env_vars={name: value for name, value in variables.items() if name not in hidden},
            secret_names=tuple(hidden),
            resources=self.resources,
            lifetime_s=self.lifetime_s,
            user=self.user,
            read_only_root=self.read_only_root,
            labels=self.labels,
            changes=self.pod_changes,
        )
        return settings, hidden

    def _remove_leftovers(self) -> None:
        try:
            removed = self.reap()
        except ProviderError as error:  # which the start itself will tell, if it concerns it too
            logger.info("could not look for pods that were left behind: %s", error)
            return
        if removed:
            logger.warning("removed pods whose providers are gone: %s", ", ".join(removed))

    def _wait_until_running(self, name: str) -> Manifest:
        """Watch a pod until its server runs; return it as it is then."""
        ends_at = time.monotonic() + self.start_timeout_s
        while True:
            pod = self._checked(name, self._cluster.pod(name))  # a watch tells nothing of a pod that went before it
            if is_running(pod):
                return pod
            if (remaining := ends_at - time.monotonic()) <= 0:
                what = f"The pod {name} did not run within {self.start_timeout_s:g} s: {obstacle(pod).rstrip('.')}."
                raise ServerNotReadyError(self._with_warnings(name, what), self._cluster.log(name, LOG_END) or None)
            for change in self._cluster.changes_of_pod(name, min(remaining, _WATCH_S)):
                pod = self._checked(name, change)
                if is_running(pod):
                    return pod
            time.sleep(_PAUSE_S)

    def _checked(self, name: str, pod: Manifest | None) -> Manifest:
        """Return a pod that has a server or may still have one.

        Raises:
            ProviderError: It has none and will have none.
        """
        why = "it was deleted" if pod is None else failure(pod)
        restarted = pod is not None and has_restarted(pod)
        if why is None and restarted and not self._is_ready:
            why = "the server ended before it was ready, and was started again"
        if pod is not None and why is None:
            return pod
        log = self._cluster.log(name, LOG_END, previous=restarted) or self._cluster.log(name, LOG_END)
        what = f"The pod {name} can't serve: {str(why).rstrip('.')}."
        raise ProviderError(self._with_warnings(name, what), log or None)

    def _with_warnings(self, name: str, message: str) -> str:
        warnings = self._cluster.warnings_of(name)
        return f"{message} Kubernetes warns: {'; '.join(warnings)}." if warnings else message

    def _address(self, pod: Manifest, settings: PodSettings, port: int | None) -> str:
        if self.reach == "pod":
            return url_of(str(address(pod)), settings.port)
        self._tunnel = Tunnel(self._cluster, settings.name, settings.port, port)
        return url_of(HOST, self._tunnel.port)

    def _clean_up_after_failure(self) -> None:
        """Remove what there is; where even that fails, it is left to ``reap`` and the first error stands."""
        try:
            self.stop_container()
        except ProviderError as error:
            logger.warning("could not remove the pod %s: %s", self._pod, error)
            self._pod = None
            self._stopped()
