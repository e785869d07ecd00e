"""The pod that the provider starts, and the Secret beside it, as manifests."""

import getpass
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv.core.providers.kubernetes.manifests import (
    SCRATCH,
    Manifest,
    container_security,
    image_name,
    name_from,
    overlay,
    plain_variables,
    pod_security,
    resources_of,
    scratch_mount,
    scratch_volume,
    secret_variable,
)
from openenv.core.providers.resources import Resources

MANAGER = "openenv-provider"
SELECTOR = f"app.kubernetes.io/managed-by={MANAGER}"
"""Finds the pods of all providers of a namespace."""
ALIVE_AT = "openenv.dev/alive-at"
"""Annotation: when the pod's provider was last heard of, in seconds since the epoch, by the cluster's clock."""
_STARTED_BY = "openenv.dev/started-by"
CONTAINER = "server"


@dataclass(frozen=True)
class PodSettings:
    """What a pod is to be like.

    Attributes:
        name: The pod's name, and its Secret's.
        image: Image of the server.
        port: Where the server listens in the pod.
        env_vars: Environment variables that are no secrets.
        secret_names: Environment variables whose values are in the Secret.
        resources: What it may take.
        lifetime_s: Seconds after which Kubernetes ends it in any case; ``None`` for never.
        user: Number of the user that the server runs as.
        read_only_root: Whether the image's files can't be written.
        labels: Further labels.
        changes: What is to be laid over the pod's manifest.
    """

    name: str
    image: str
    port: int
    env_vars: Mapping[str, str] = field(default_factory=dict)
    secret_names: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    lifetime_s: float | None = None
    user: int = 1000
    read_only_root: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


def pod_manifest(settings: PodSettings, now: float) -> Manifest:
    """Write a pod.

    Args:
        settings: What it is to be like.
        now: The time by the cluster's clock, in seconds since the epoch.
    """
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": settings.name,
            "labels": _labels(settings),
            "annotations": {ALIVE_AT: f"{now:.0f}", _STARTED_BY: _this_process()},
        },
        "spec": {
            # A server that crashed comes back at the same address, where its clients find it.
            "restartPolicy": "OnFailure",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security(settings.user),
            "containers": [_container(settings)],
            "volumes": [scratch_volume()],
        },
    }
    if settings.lifetime_s is not None:
        pod["spec"]["activeDeadlineSeconds"] = max(1, round(settings.lifetime_s))
    return overlay(pod, settings.changes)


def secret_manifest(settings: PodSettings, values: Mapping[str, str], pod_uid: str) -> Manifest:
    """Write the Secret of a pod, which Kubernetes removes with the pod.

    Args:
        settings: Of the pod.
        values: Its values, by the names of the environment variables.
        pod_uid: What tells the pod from others of its name.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": settings.name,
            "labels": _labels(settings),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": settings.name, "uid": pod_uid}],
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(values),
    }


def alive_at(pod: Manifest) -> float | None:
    """Read when the provider of a pod was last heard of; ``None`` where the pod does not tell."""
    annotations = pod["metadata"].get("annotations") or {}
    try:
        return float(annotations[ALIVE_AT])
    except (KeyError, ValueError):
        return None


def alive_patch(now: float) -> Manifest:
    """Write the change that says that the provider of a pod is alive."""
    return {"metadata": {"annotations": {ALIVE_AT: f"{now:.0f}"}}}


def _labels(settings: PodSettings) -> dict[str, str]:
    return {
        **settings.labels,
        "app.kubernetes.io/name": name_from(image_name(settings.image)),
        "app.kubernetes.io/component": "environment",
        "app.kubernetes.io/managed-by": MANAGER,
    }


def _container(settings: PodSettings) -> Manifest:
    # The process that started this server is its only client: when the server is to end, no other client plays on.
    defaults = {"PORT": str(settings.port), "OPENENV_DRAIN_S": "0", "HOME": SCRATCH}
    env = plain_variables({**defaults, **settings.env_vars})
    env += [secret_variable(name, settings.name, name) for name in settings.secret_names]
    return {
        "name": CONTAINER,
        "image": settings.image,
        "ports": [{"name": "http", "containerPort": settings.port}],
        "env": env,
        "resources": resources_of(settings.resources),
        "securityContext": container_security(settings.read_only_root),
        "volumeMounts": [scratch_mount()],
    }


def _this_process() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.getuid())
    return json.dumps({"user": user, "host": socket.gethostname(), "pid": os.getpid()})
