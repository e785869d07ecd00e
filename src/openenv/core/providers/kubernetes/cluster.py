"""Requests of providers to a cluster, each bounded in time, with answers as plain JSON.

The only module that imports the Kubernetes client. Whatever keeps it from an answer becomes a ``ProviderError`` that
names the request; that there is no such object is no error where it may have been removed meanwhile.
"""

import json
import logging
import os
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from openenv._extras import install_command
from openenv.core.exceptions import ProviderError
from openenv.core.providers.kubernetes.manifests import Manifest
from openenv.core.providers.kubernetes.pod import CONTAINER

try:
    from kubernetes.client import ApiClient, Configuration, CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config import (
        KUBE_CONFIG_DEFAULT_LOCATION,
        ConfigException,
        list_kube_config_contexts,
        load_incluster_config,
        load_kube_config,
    )
    from urllib3.exceptions import HTTPError
except ImportError as error:
    raise ImportError(f"This needs the Kubernetes client: {install_command('kubernetes')}") from error

REQUEST_TIMEOUT_S = 10.0
_LOG_LINES = 500
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NO_RIGHTS = (401, 403)
_NO_SUCH_OBJECT = 404

logger = logging.getLogger(__name__)


class ForwardTarget(NamedTuple):
    """Where a WebSocket carries the bytes of a port of a pod.

    Attributes:
        url: Its address.
        headers: What the cluster wants to see.
        tls: How to check that it is the cluster; ``None`` without encryption.
        server_name: Name in its certificate, where it is not the address's.
        proxy: Proxy on the way to it.
    """

    url: str
    headers: dict[str, str]
    tls: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None


class Cluster:
    """A namespace of a cluster.

    Args:
        namespace: Its name; by default the configuration's own, else ``default``.
        context: Context of the kubeconfig; the current one if ``None``.
        kubeconfig: File with addresses and credentials; by default what ``KUBECONFIG`` says or ``~/.kube/config``;
            where there is none, the service account of the pod that this runs in.
        request_timeout_s: Seconds that the cluster's API may take for an answer.

    Attributes:
        namespace: The namespace's name.
        is_around: Whether this process runs in a pod of the cluster, and so reaches its pods directly.

    Raises:
        ProviderError: There is no such configuration.
    """

    def __init__(
        self,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | Path | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._configuration = Configuration()
        self.is_around = context is None and kubeconfig is None and _is_in_cluster()
        try:
            own_namespace = self._load(context, kubeconfig)
        except (ConfigException, OSError) as error:
            raise ProviderError(
                f"Expected a kubeconfig ({kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION}) that names a cluster, or a "
                f"pod's service account, got neither: {error}"
            ) from error
        self._configuration.retries = 0
        self.namespace = namespace or own_namespace or "default"
        self._timeout_s = request_timeout_s
        self._client = ApiClient(self._configuration)
        self._api: Any = CoreV1Api(self._client)  # of its answers, only the bytes are used
        self._clock_offset_s = 0.0

    def _load(self, context: str | None, kubeconfig: str | Path | None) -> str | None:
        """Read where the cluster is, and return the namespace that goes with that."""
        if self.is_around:
            load_incluster_config(client_configuration=self._configuration)  # type: ignore[no-untyped-call]
            return _NAMESPACE_FILE.read_text("utf-8").strip() if _NAMESPACE_FILE.exists() else None
        file = None if kubeconfig is None else str(kubeconfig)
        load_kube_config(  # type: ignore[no-untyped-call]
            file, context, client_configuration=self._configuration, persist_config=False
        )
        contexts, current = list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
        chosen = current if context is None else next(entry for entry in contexts if entry["name"] == context)
        own: str | None = chosen["context"].get("namespace")
        return own

    @property
    def now(self) -> float:
        """The time by the cluster's clock, as of its last answer: machines of a cluster may disagree about it."""
        return time.time() + self._clock_offset_s

    def create_pod(self, manifest: Manifest) -> Manifest:
        """Create a pod and return it as the cluster has it."""
        return self._ask(f"create a pod in {self.namespace}", self._api.create_namespaced_pod, self.namespace, manifest)

    def create_secret(self, manifest: Manifest) -> None:
        """Create a Secret."""
        doing = f"create a Secret in {self.namespace}"
        self._ask(doing, self._api.create_namespaced_secret, self.namespace, manifest)

    def pod(self, name: str) -> Manifest | None:
        """Return a pod, or ``None`` where there is no such."""
        return self._ask_for(f"read the pod {name}", self._api.read_namespaced_pod, name, self.namespace)

    def pods(self, selector: str) -> list[Manifest]:
        """Return the pods of the namespace that a label selector finds."""
        doing = f"list the pods of {self.namespace}"
        listed = self._ask(doing, self._api.list_namespaced_pod, self.namespace, label_selector=selector)
        items: list[Manifest] = listed["items"]
        return items

    def changes_of_pod(self, name: str, timeout_s: float) -> Iterator[Manifest | None]:
        """Give a pod as it is and again whenever it changes, ``None`` once it is gone.

        It ends after the time, or sooner where the connection goes; then look again.

        Args:
            name: The pod's name.
            timeout_s: Seconds to go on for.
        """
        seconds = max(1, round(timeout_s))
        try:
            response = self._api.list_namespaced_pod(
                self.namespace,
                field_selector=f"metadata.name={name}",
                watch=True,
                timeout_seconds=seconds,
                _preload_content=False,
                _request_timeout=(self._timeout_s, seconds + self._timeout_s),
            )
            with closing(response):
                yield from map(_changed_pod, response)
        except ApiException as error:
            raise self._refusal(f"watch the pod {name}", error) from error
        except (HTTPError, OSError) as error:  # the caller knows for how long to try again
            logger.info("the watch on the pod %s broke off: %s", name, error)

    def change_pod(self, name: str, patch: Manifest) -> bool:
        """Change a pod; say whether there was one."""
        doing = f"change the pod {name}"
        return self._ask_for(doing, self._api.patch_namespaced_pod, name, self.namespace, patch) is not None

    def delete_pod(self, name: str, grace_s: float) -> None:
        """Delete a pod, if it is there.

        Args:
            name: Its name.
            grace_s: Seconds that its server has to end.
        """
        options = {"gracePeriodSeconds": round(grace_s), "propagationPolicy": "Background"}
        self._ask_for(f"delete the pod {name}", self._api.delete_namespaced_pod, name, self.namespace, body=options)

    def delete_secret(self, name: str) -> None:
        """Delete a Secret, if it is there."""
        self._ask_for(f"delete the Secret {name}", self._api.delete_namespaced_secret, name, self.namespace)

    def warnings_of(self, pod: str) -> list[str]:
        """Return what the cluster warned of about a pod, the latest last; nothing where events may not be read."""
        selector = f"involvedObject.kind=Pod,involvedObject.name={pod}"
        call = self._api.list_namespaced_event
        try:
            listed = self._ask("list events", call, self.namespace, field_selector=selector)
        except ProviderError:
            return []
        events = [event for event in listed["items"] if event.get("type") == "Warning"]
        return list(dict.fromkeys(f"{event.get('reason')}: {event.get('message')}" for event in events))

    def log(self, pod: str, size: int, *, previous: bool = False) -> str:
        """Return the end of what a pod's server printed; nothing where it can't be read.

        Args:
            pod: The pod's name.
            size: Characters to return at most.
            previous: Whether to read what the server printed before it was started again.
        """
        try:
            response = self._api.read_namespaced_pod_log(
                pod,
                self.namespace,
                container=CONTAINER,
                tail_lines=_LOG_LINES,
                previous=previous,
                _preload_content=False,
                _request_timeout=(self._timeout_s, self._timeout_s),
            )
            text: str = response.data.decode(errors="replace").strip()
            return text[-size:]
        except (ApiException, HTTPError):
            return ""

    def forward_target(self, pod: str, port: int) -> ForwardTarget:
        """Say where the cluster's API forwards a port of a pod over a WebSocket, and what it requires."""
        configuration = self._configuration
        url = f"{configuration.host}/api/v1/namespaces/{self.namespace}/pods/{pod}/portforward?ports={port}"
        settings: Any = configuration.auth_settings()
        return ForwardTarget(
            url=url.replace("http", "ws", 1),
            headers={setting["key"]: setting["value"] for setting in settings.values()},
            tls=_tls_of(configuration) if url.startswith("https") else None,
            server_name=configuration.tls_server_name,
            proxy=_proxy_of(configuration),
        )

    def close(self) -> None:
        """Close the connections to the cluster's API."""
        self._client.close()  # type: ignore[no-untyped-call]

    def _ask(self, what: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Manifest:
        try:
            return self._send(what, method, *arguments, **options)
        except ApiException as error:
            raise self._refusal(what, error) from error

    def _ask_for(self, what: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Manifest | None:
        """Ask about an object; ``None`` where there is no such."""
        try:
            return self._send(what, method, *arguments, **options)
        except ApiException as error:
            if error.status == _NO_SUCH_OBJECT:
                return None
            raise self._refusal(what, error) from error

    def _send(self, what: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Manifest:
        timeouts = (self._timeout_s, self._timeout_s)
        try:
            response = method(*arguments, **options, _preload_content=False, _request_timeout=timeouts)
            answer: Manifest = json.loads(response.data)
        except (HTTPError, OSError) as error:
            raise ProviderError(
                f"The cluster's API at {self._configuration.host} gave no answer within {self._timeout_s:g} s to "
                f"the request to {what}: {error}"
            ) from error
        except ValueError as error:  # what the client finds wrong with a manifest before it sends it
            raise ProviderError(f"The request to {what} could not be sent: {error}") from error
        self._clock_offset_s = _date_of(response) - time.time()
        return answer

    def _refusal(self, what: str, error: ApiException) -> ProviderError:
        message = f"The cluster refused to {what}: {_message_of(error)}"
        if error.status in _NO_RIGHTS and "quota" not in message:
            message += " (What rights a provider needs is in docs/kubernetes.md.)"
        return ProviderError(message)


def _is_in_cluster() -> bool:
    """Say whether this runs in a pod, and no other cluster is configured."""
    files = [Path(file).expanduser() for file in KUBE_CONFIG_DEFAULT_LOCATION.split(os.pathsep) if file]
    return "KUBERNETES_SERVICE_HOST" in os.environ and not any(file.exists() for file in files)


def _tls_of(configuration: Configuration) -> ssl.SSLContext:
    """Make of a client's configuration what other libraries take."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy_of(configuration: Configuration) -> str | None:
    host = urlsplit(configuration.host).hostname or ""
    is_bypassed = proxy_bypass_environment(host, {"no": configuration.no_proxy or ""})
    return None if is_bypassed else configuration.proxy


def _changed_pod(line: bytes) -> Manifest | None:
    """Read what a watch tells: the pod as it is now, or ``None`` where it is gone."""
    event = json.loads(line)
    if event["type"] == "ERROR":  # an old answer can't be gone on from; the next watch begins again
        raise OSError(event["object"].get("message"))
    changed: Manifest = event["object"]
    return None if event["type"] == "DELETED" else changed


def _message_of(error: ApiException) -> str:
    """Take the cluster's own sentence out of an answer."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"


def _date_of(response: Any) -> float:
    """Read when an answer was sent, by the clock of who sent it."""
    try:
        return parsedate_to_datetime(response.headers["Date"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return time.time()
