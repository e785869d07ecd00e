"""What a container may do: as little as its server needs, whatever runs in it."""

import json
from collections.abc import Sequence
from typing import Any

from openenv.core.providers.docker.labels import ImageLabels
from openenv.core.providers.resources import Resources

MOST_PROCESSES = 1024
"""Processes and threads at once where ``Resources`` says nothing; with no bound one container can stop the machine."""
WRITABLE_FOLDER = "rw,exec,nosuid,nodev,mode=1777,size=256m"
"""How a folder that stays writable is mounted: in memory."""

# Left out of what a server with sandboxes of its own may call. Docker's own list also leaves out namespaces and mounts,
# which those sandboxes are made of; what they run inside has a much shorter list, see ``openenv.core.sandbox``.
_REFUSED_CALLS = """
acct add_key adjtimex bpf clock_adjtime clock_settime delete_module fanotify_init finit_module init_module ioperm iopl
kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages move_pages nfsservctl open_by_handle_at
perf_event_open pidfd_getfd process_vm_readv process_vm_writev ptrace quotactl quotactl_fd reboot request_key
set_mempolicy settimeofday swapoff swapon syslog userfaultfd ustat vm86 vm86old
"""


def confinement(
    labels: ImageLabels, resources: Resources, read_only: bool | None, capabilities: Sequence[str]
) -> dict[str, Any]:
    """Write down the confinement of a container, in the words of the engine's ``HostConfig``.

    Args:
        labels: The image's labels.
        resources: What the container may use.
        read_only: Whether its file system is; where ``None``, the image decides.
        capabilities: The capabilities of root that it keeps; all others are dropped.
    """
    if read_only is None:
        read_only = labels.writable is not None
    settings: dict[str, Any] = {
        "CapDrop": ["ALL"],
        "CapAdd": list(capabilities),
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": read_only,
        "Tmpfs": dict.fromkeys(labels.writable or ("/tmp",), WRITABLE_FOLDER) if read_only else {},  # noqa: S108
        "PidsLimit": resources.pids or MOST_PROCESSES,
    }
    if labels.nested_sandbox:
        settings |= _allowing_sandboxes()
    return settings | _limits(resources)


def _limits(resources: Resources) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if resources.cpus is not None:
        limits["NanoCpus"] = round(resources.cpus * 1e9)
    if resources.memory_bytes is not None:
        # Swap counts too: what is over the limit is ended, instead of slowing everybody down.
        limits |= {"Memory": resources.memory_bytes, "MemorySwap": resources.memory_bytes}
    if resources.gpus:
        limits["DeviceRequests"] = [{"Count": resources.gpus, "Capabilities": [["gpu"]]}]
    return limits


def _allowing_sandboxes() -> dict[str, Any]:
    """Let the server make namespaces, mounts in them, and a /proc of their own: bubblewrap needs each."""
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": _REFUSED_CALLS.split(), "action": "SCMP_ACT_ERRNO"}],
    }
    return {
        "SecurityOpt": ["no-new-privileges", f"seccomp={json.dumps(profile)}", "apparmor=unconfined"],
        # A new /proc may be mounted only where all of the old one is seen.
        "MaskedPaths": [],
        "ReadonlyPaths": [],
    }
