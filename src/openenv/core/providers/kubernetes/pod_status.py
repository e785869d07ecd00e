"""What a pod's status says: whether its server runs, why it never will, or what it still waits for."""

from openenv.core.providers.kubernetes.manifests import Manifest
from openenv.core.providers.kubernetes.pod import CONTAINER

_HOPELESS = {
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
}
"""What a container waits for in vain. Not ``ErrImagePull``: it is tried again, as ``ImagePullBackOff`` says."""


def is_running(pod: Manifest) -> bool:
    """Say whether the server's process runs, be it for the first time or not, and has an address."""
    return "running" in _container(pod).get("state", {}) and address(pod) is not None


def has_restarted(pod: Manifest) -> bool:
    """Say whether the server has ended once already."""
    return bool(_container(pod).get("restartCount"))


def failure(pod: Manifest) -> str | None:
    """Say why a pod has no server and will have none; ``None`` while there is hope."""
    if pod["metadata"].get("deletionTimestamp"):
        return "it is being deleted, though not by this provider"
    status = pod.get("status", {})
    if status.get("phase") in ("Failed", "Succeeded"):
        return _sentence(status) or _ending(_container(pod)) or f"it is over: {status['phase']}"
    waiting = _container(pod).get("state", {}).get("waiting", {})
    if waiting.get("reason") not in _HOPELESS or _awaits_secret(pod, waiting):
        return None
    return " after ".join(filter(None, (_sentence(waiting), _ending(_container(pod)))))


def obstacle(pod: Manifest) -> str:
    """Say what a pod waits for whose server does not run yet."""
    status = pod.get("status", {})
    waiting = _sentence(_container(pod).get("state", {}).get("waiting", {}))
    unmet = [
        _sentence(condition)
        for condition in status.get("conditions", [])
        if condition["status"] == "False" and condition["type"] == "PodScheduled"
    ]
    return waiting or "; ".join(filter(None, unmet)) or f"its phase is {status.get('phase', 'Pending')}"


def address(pod: Manifest) -> str | None:
    """Return the pod's address in the cluster's network; ``None`` while it has none."""
    found: str | None = pod.get("status", {}).get("podIP")
    return found


def _container(pod: Manifest) -> Manifest:
    statuses: list[Manifest] = pod.get("status", {}).get("containerStatuses") or []
    return next((status for status in statuses if status["name"] == CONTAINER), {})


def _awaits_secret(pod: Manifest, waiting: Manifest) -> bool:
    """Say whether it only waits for its own Secret, which is made after it, since the pod is to own it."""
    return f'secret "{pod["metadata"]["name"]}" not found' in waiting.get("message", "")


def _ending(container: Manifest) -> str | None:
    """Say how the server ended, the last time that it did."""
    ended = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated")
    if not ended:
        return None
    reason = f" ({_sentence(ended)})" if ended.get("reason") not in (None, "Error", "Completed") else ""
    return f"the server ended with exit status {ended['exitCode']}{reason}"


def _sentence(state: Manifest) -> str | None:
    """Put reason and message together, as far as they are there."""
    return ": ".join(filter(None, (state.get("reason"), state.get("message")))) or None
