"""Control groups: made where the operator says, limited, and removed."""

import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from tests.core.sandbox.conftest import Started
from tests.support.sandbox.waiting import until

from openenv.core.exceptions import ConfigurationError
from openenv.core.sandbox import Sandbox, SandboxLimits, cgroup

pytestmark = pytest.mark.needs("sandbox")

# Where groups for memory are made: in version 1, and in version 2.
PLACES = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A group set aside for sandboxes."""
    above = next((path for path in PLACES if (path / "cgroup.procs").exists() and os.access(path, os.W_OK)), None)
    if above is None:
        pytest.skip("no control group can be made here; run this as root, outside a container")
    place = above / f"openenv-test-{uuid.uuid4().hex}"
    place.mkdir()
    monkeypatch.setenv(cgroup.VARIABLE, str(place))
    yield place
    until(lambda: _removed(place))
    place.rmdir()


def groups_in(place: Path) -> list[Path]:
    return list(place.glob("sandbox-*"))


def test_a_sandbox_is_in_a_group_with_its_limit(place: Path, limits: SandboxLimits, started: Started) -> None:
    with Sandbox(limits) as sandbox:
        (group,) = groups_in(place)
        files = [group / name for name in ("memory.limit_in_bytes", "memory.max")]
        most = [int(file.read_text()) for file in files if file.exists()]
        assert most == [limits.memory_bytes + 3 * limits.disk_bytes + 64 * 2**20]
        held = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
        processes = [one for child in started() for one in (child, *child.children(recursive=True))]
        assert held == {process.pid for process in processes if process.name() != "bwrap"}
        assert sandbox.python("print(1)").stdout == "1\n"
    _wait_until_removed(group, limits)


def test_memory_that_the_kernel_holds_counts_too(place: Path, limits: SandboxLimits) -> None:
    """What waits in sockets is nobody's address space."""
    code = """
import socket
held = []
while True:
    for end in socket.socketpair():
        end.setblocking(False)
        held.append(end)
        try:
            while True:
                end.send(bytes(60_000))
        except BlockingIOError:
            pass
"""
    with Sandbox(SandboxLimits(memory_bytes=64 * 2**20, disk_bytes=2**20, open_files=4096)) as sandbox:
        assert sandbox.python(code).exit_code != 0
        after = sandbox.python("print(1)")
        assert after.stdout == "1\n" or (after.files_lost and sandbox.python("print(1)").stdout == "1\n")
        (group,) = groups_in(place)
    _wait_until_removed(group, limits)


def test_many_are_made_at_once(place: Path, limits: SandboxLimits) -> None:
    processes = [subprocess.Popen(["sleep", "60"]) for _ in range(60)]
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(lambda process: cgroup.confine(process.pid, limits), processes))
    for process in processes:
        process.kill()
        process.wait()
    assert sorted(groups_in(place)) == sorted(group for group in made if group is not None)


def test_a_process_that_has_ended_has_none(place: Path, limits: SandboxLimits) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ProcessLookupError):
        cgroup.confine(process.pid, limits)
    assert groups_in(place) == []


def test_a_place_that_is_no_group_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limits: SandboxLimits
) -> None:
    monkeypatch.setenv(cgroup.VARIABLE, str(tmp_path))
    started = time.time()
    with pytest.raises(ConfigurationError, match=r"OPENENV_SANDBOX_CGROUP.*leave the variable out"):
        Sandbox(limits)
    assert list(tmp_path.iterdir()) == []
    seen = [process.info for process in psutil.process_iter(["name", "ppid", "create_time"])]
    orphans = [info for info in seen if info["name"] == "bwrap" and info["ppid"] == 1 and info["create_time"] > started]
    assert orphans == []


def _removed(place: Path) -> bool:
    for group in groups_in(place):
        cgroup.remove(group)
    return groups_in(place) == []


def _wait_until_removed(group: Path, limits: SandboxLimits) -> None:
    for _ in range(100):
        if not group.exists():
            return
        Sandbox(limits).close()  # whose start removes what was still ending
    pytest.fail(f"{group} is still there")
