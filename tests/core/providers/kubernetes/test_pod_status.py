"""What a pod's status is taken for."""

from typing import Any

import pytest

from openenv.core.providers.kubernetes.pod_status import failure, has_restarted, is_running, obstacle


def pod(container: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    if container is not None:
        status["containerStatuses"] = [{"name": "sidecar", "state": {}}, {"name": "server", **container}]
    return {"metadata": {"name": "p"}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (pod(waiting("ImagePullBackOff", "Back-off pulling image")), "ImagePullBackOff: Back-off pulling image"),
        (pod(waiting("InvalidImageName")), "InvalidImageName"),
        (pod(waiting("ErrImageNeverPull")), "ErrImageNeverPull"),
        (
            pod(waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")),
            "CreateContainerConfigError: container has runAsNonRoot and image will run as root",
        ),
        (pod(waiting("CreateContainerConfigError", 'secret "q" not found')), 'CreateContainerConfigError: secret "q"'),
        (
            pod({**waiting("CrashLoopBackOff", "back-off 10s"), "lastState": KILLED}),
            "CrashLoopBackOff: back-off 10s after the server ended with exit status 137 (OOMKilled)",
        ),
        (pod(phase="Failed", reason="DeadlineExceeded", message="Pod was active too long"), "DeadlineExceeded: Pod"),
        (pod({"state": KILLED}, phase="Failed"), "the server ended with exit status 137 (OOMKilled)"),
        (pod({"state": {"terminated": {"exitCode": 0}}}, phase="Succeeded"), "the server ended with exit status 0"),
        (pod(phase="Failed"), "it is over: Failed"),
        ({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "it is being deleted"),
    ],
)
def test_there_is_no_hope(state: dict[str, Any], why: str) -> None:
    assert str(failure(state)).startswith(why)


@pytest.mark.parametrize(
    "state",
    [
        {"metadata": {"name": "p"}},
        pod(phase="Pending"),
        pod(phase="Pending", containerStatuses=None),
        pod(waiting("ContainerCreating")),
        pod(waiting("ErrImagePull", "i/o timeout")),
        pod(waiting("CreateContainerConfigError", 'secret "p" not found')),
        pod(RUNNING, phase="Running"),
    ],
)
def test_there_is_hope(state: dict[str, Any]) -> None:
    assert failure(state) is None


def test_a_server_runs_where_it_has_an_address() -> None:
    assert is_running(pod(RUNNING, phase="Running", podIP="10.0.0.7"))
    assert not is_running(pod(RUNNING, phase="Running"))
    assert not is_running(pod(waiting("ContainerCreating"), podIP="10.0.0.7"))
    assert not is_running({"metadata": {"name": "p"}})


def test_whether_a_server_was_started_again() -> None:
    assert has_restarted(pod({**RUNNING, "restartCount": 1}))
    assert not has_restarted(pod({**RUNNING, "restartCount": 0}))


def test_what_a_pod_waits_for() -> None:
    unmet = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    met = {"type": "Initialized", "status": "True"}
    assert obstacle(pod(conditions=[met, unmet])) == "Unschedulable: 0/3 nodes"
    assert obstacle(pod(waiting("ContainerCreating"))) == "ContainerCreating"
    assert obstacle(pod()) == "its phase is Pending"
