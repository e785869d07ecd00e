"""Probes of the machine itself: memory, disk, descriptors, the port, and the folder of a journal."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

from openenv.core.env_server.history.stores.choice import is_address
from openenv.doctor.finding import Finding, Status

_GIBIBYTE = 2**30
_LEAST_MEMORY = _GIBIBYTE // 2
_LEAST_DISK = _GIBIBYTE
# A session of the legacy wire, and one with a separate process, takes some descriptors.
_ENOUGH_DESCRIPTORS = 4096
_PORT = 8000


def memory() -> Finding:
    """Find how much memory is free."""
    used_for = "sessions; some 12 KiB each, and what the environment needs"
    file = Path("/proc/meminfo")
    if not file.exists():  # not Linux
        return Finding("memory", Status.UNSURE, "this system does not report how much is free", used_for)
    lines = dict(line.split(":", 1) for line in file.read_text("utf-8", "replace").splitlines())
    free, total = (int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
    status = Status.READY if free >= _LEAST_MEMORY else Status.UNSURE
    return Finding("memory", status, f"{_gib(free)} of {_gib(total)} free", used_for)


def disk() -> Finding:
    """Find how much space there is for temporary files."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    status = Status.READY if free >= _LEAST_DISK else Status.UNSURE
    return Finding("disk", status, f"{_gib(free)} free in {folder}", "packages, images, sandboxes")


def descriptors() -> Finding:
    """Find how many files and sockets a process may have open."""
    used_for = "many clients at once"
    try:
        import resource  # not on every system
    except ImportError:
        return Finding("descriptors", Status.UNSURE, "this system does not report how many there may be", used_for)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= _ENOUGH_DESCRIPTORS:
        return Finding("descriptors", Status.READY, f"up to {soft:,} files and sockets at once", used_for)
    limit = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard}"
    return Finding("descriptors", Status.UNSURE, f"no more than {soft:,} at once", used_for, f"ulimit -n {limit}")


def port() -> Finding:
    """Check whether the usual port is free."""
    used_for = "openenv serve, unless it is given another one"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError as error:
            detail = f"{_PORT} can't be listened on: {error.strerror}"
            return Finding("port", Status.UNSURE, detail, used_for, "openenv serve NAME --port 0  # takes a free one")
    return Finding("port", Status.READY, f"{_PORT} is free", used_for)


def journal() -> Finding:
    """Check whether a journal could be written: in the folder of ``OPENENV_JOURNAL``, or else here."""
    used_for = "sessions that survive their server"
    location = os.environ.get("OPENENV_JOURNAL") or "journal"
    if is_address(location):
        return Finding("journal", Status.READY, "in a database, which a server checks when it starts", used_for)
    folder = Path(location).absolute().parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Finding("journal", Status.READY, f"{folder} can be written", used_for)
    except OSError as error:
        remedy = f"mkdir -p {folder}" if not folder.exists() else "openenv serve NAME --journal PATH"
        return Finding("journal", Status.MISSING, f"{folder} can't be written: {error.strerror}", used_for, remedy)


def _gib(size: int) -> str:
    return f"{size / _GIBIBYTE:.1f} GiB"
