"""What every manifest of a server's pod holds: how it is locked down, limited and configured."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.resources import Resources

Manifest: TypeAlias = dict[str, Any]
"""An object of Kubernetes, or a part of one, as JSON has it."""

CONTAINER_PORT = 8000
"""Where images of environments listen, unless the variable ``PORT`` tells them otherwise."""
USER = 1000
"""Who the server runs as. Images made for Spaces of the Hub run as this user there too."""
SCRATCH = "/tmp"  # noqa: S108  # in the container, where no other user is
"""The one folder that can be written while the image's own file system can't."""

_LONGEST_NAME = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MEBIBYTE = 1024 * 1024


def pod_security(user: int = USER) -> Manifest:
    """Write the security context of a pod: no process is root in it, and system calls are filtered.

    Args:
        user: Number of the user that its processes run as.
    """
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(read_only_root: bool = True) -> Manifest:
    """Write the security context of a container: no rights, none to be had, and a file system that stays as it is.

    Args:
        read_only_root: Whether the image's files can't be written.
    """
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": read_only_root,
        "capabilities": {"drop": ["ALL"]},
    }


def resources_of(resources: Resources) -> Manifest:
    """Write what a container may take; it is promised the same, so that it is not the first to be evicted.

    Raises:
        ConfigurationError: Processes are to be limited, which a pod can't say.

    Example:
        >>> resources_of(Resources(cpus=0.5, memory="512m"))["limits"]
        {'cpu': '500m', 'memory': '512Mi'}
    """
    if resources.pids is not None:
        raise ConfigurationError(
            f"Expected no limit of processes, got pids={resources.pids}: Kubernetes sets that for each node "
            "(podPidsLimit of its kubelet), not for a pod."
        )
    amounts = {}
    if resources.cpus is not None:
        amounts["cpu"] = f"{round(resources.cpus * 1000)}m"
    if resources.memory_bytes is not None:
        amounts["memory"] = quantity(resources.memory_bytes)
    if resources.gpus:
        amounts["nvidia.com/gpu"] = str(resources.gpus)
    return {"requests": dict(amounts), "limits": amounts} if amounts else {}


def quantity(size: int) -> str:
    """Write a number of bytes as Kubernetes does, where ``m`` would be thousandths.

    Example:
        >>> quantity(1024 * 1024), quantity(1000)
        ('1Mi', '1000')
    """
    return str(size) if size % _MEBIBYTE else f"{size // _MEBIBYTE}Mi"


def plain_variables(variables: Mapping[str, str]) -> list[Manifest]:
    """Write environment variables that are no secrets."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def secret_variable(name: str, secret: str, key: str) -> Manifest:
    """Write an environment variable whose value is in a Secret, so that the pod's manifest does not have it.

    Args:
        name: The variable.
        secret: The Secret's name.
        key: Where in it the value is.
    """
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def health_probe(path: str, **times: int) -> Manifest:
    """Write a probe over HTTP; no token is needed for these paths.

    Args:
        path: ``/health`` or ``/ready``.
        **times: How often, and how long, as Kubernetes calls it.
    """
    return {"httpGet": {"path": path, "port": "http"}, **times}


def scratch_volume() -> Manifest:
    """Write the volume behind ``SCRATCH``: it goes with the pod, and its size counts."""
    return {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}


def scratch_mount() -> Manifest:
    """Write where that volume is mounted."""
    return {"name": "scratch", "mountPath": SCRATCH}


def check_name(name: str, what: str) -> str:
    """Return a name that Kubernetes takes for an object.

    Raises:
        ConfigurationError: It does not take this one.

    Example:
        >>> check_name("echo-env", "namespace")
        'echo-env'
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"Expected a {what} of at most {_LONGEST_NAME} small letters, digits and hyphens, which begins and ends "
            f"with a letter or digit, got {name!r}."
        )
    return name


def name_from(text: str, room: int = _LONGEST_NAME) -> str:
    """Make of any text a name that Kubernetes takes.

    Args:
        text: A name of something else.
        room: How long it may be.

    Example:
        >>> name_from("My_Env"), name_from("...")
        ('my-env', 'env')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:room].strip("-") or "env"


def image_name(image: str) -> str:
    """Take what an image is called out of its address.

    Example:
        >>> image_name("registry.example.com:5000/team/echo-env:1.2@sha256:0000")
        'echo-env'
    """
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def overlay(manifest: Manifest, changes: Mapping[str, Any]) -> Manifest:
    """Lay changes over a manifest, as ``kubectl apply`` does.

    A mapping is changed key by key, and so is a list whose entries have names, by these; all else is replaced.

    Example:
        >>> overlay({"a": [{"name": "x", "b": 1}], "c": [1]}, {"a": [{"name": "x", "d": 2}], "c": [3]})
        {'a': [{'name': 'x', 'b': 1, 'd': 2}], 'c': [3]}
    """
    return {**manifest, **{key: _overlaid(manifest.get(key), change) for key, change in changes.items()}}


def _overlaid(value: Any, change: Any) -> Any:
    if isinstance(value, dict) and isinstance(change, Mapping):
        return overlay(value, change)
    if isinstance(value, list) and isinstance(change, list) and _has_names(value) and _has_names(change):
        changed = {entry["name"]: overlay(entry, {}) for entry in value}
        for entry in change:
            changed[entry["name"]] = overlay(changed.get(entry["name"], {}), entry)
        return list(changed.values())
    return change


def _has_names(entries: Iterable[Any]) -> bool:
    return all(isinstance(entry, Mapping) and "name" in entry for entry in entries)
