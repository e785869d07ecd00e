"""The start and the end of a sandbox: without bubblewrap, without root, and when the server is killed."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.sandbox.waiting import until

import openenv
from openenv.core.exceptions import ConfigurationError, SandboxUnavailableError
from openenv.core.sandbox import Sandbox, SandboxPool, require_sandbox

SOURCE = Path(openenv.__file__).parents[1]


@pytest.mark.parametrize("kind", ["auto", "bubblewrap"])
def test_without_bubblewrap_it_is_refused_with_a_way_to_get_one(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for start in (lambda: require_sandbox(kind), lambda: Sandbox(kind=kind), lambda: SandboxPool(kind=kind)):  # type: ignore[arg-type]
        with pytest.raises(SandboxUnavailableError, match=r"apt-get install bubblewrap.*sandbox='none'"):
            start()
    require_sandbox("none")


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(ConfigurationError, match="'jail'; expected one of 'auto', 'bubblewrap', 'none'"):
        require_sandbox("jail")


def test_a_bubblewrap_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(
        SandboxUnavailableError, match=r"No permissions to create new namespace.*systempaths=unconfined"
    ):
        Sandbox()


SERVER = """
import sys, time
from openenv.core.sandbox import Sandbox
sandbox = Sandbox()
sandbox.write_file("x", "x")
print("ready", flush=True)
sandbox.python("import os, time\\nos.fork(); os.setsid() if os.getpid() % 2 else 0\\nwhile True: time.sleep(1)")
"""


@pytest.mark.needs("sandbox")
def test_it_ends_with_the_server_however_that_ends() -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        process = psutil.Process(server.pid)
        until(lambda: len(process.children(recursive=True)) == 4)  # bubblewrap, the first process, the code's two
        inside = process.children(recursive=True)
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in inside))


STARTING = """
import sys
from openenv.core.sandbox import SandboxLimits, SandboxPool
pool = SandboxPool(100, SandboxLimits(disk_bytes=int(sys.argv[1])))
pool.warm()
print("started", flush=True)
pool._fill()
"""


@pytest.mark.needs("sandbox")
@pytest.mark.parametrize("wait_s", [0.0, 0.01, 0.03, 0.05, 0.08])
def test_a_server_that_is_killed_while_it_starts_some_leaves_none(wait_s: float) -> None:
    size = str(10_000_000 + secrets.randbelow(10_000_000))  # by which those that are starting are known

    def starting() -> bool:
        seen = psutil.process_iter(["cmdline"])
        return any("bwrap" in (process.info["cmdline"] or ()) and size in process.info["cmdline"] for process in seen)

    with subprocess.Popen([sys.executable, "-c", STARTING, size], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        until(starting)
        time.sleep(wait_s)  # any moment of a start may be the last
        server.kill()
    until(lambda: not starting())


INTERRUPTED = """
import signal
from openenv.core.sandbox import Sandbox
with Sandbox() as sandbox, Sandbox(kind="none") as other:
    try:
        print("ready", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        sandbox.write_file("a", "x"), other.write_file("a", "x")
        print(sandbox.shell("cat a").stdout + other.shell("cat a").stdout)
"""


@pytest.mark.needs("sandbox")
def test_an_interrupt_at_the_terminal_is_for_the_server_alone() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        os.killpg(server.pid, signal.SIGINT)
        assert server.stdout.read() == b"xx\n"


BOMB = """
import os
count = 0
try:
    while count < 99:
        if os.fork() == 0:
            os.kill(os.getpid(), 19)
        count += 1
except OSError:
    print(count < 12)
"""
ATTEMPTS = f"""
from openenv.core.sandbox import SandboxLimits, Sandbox
with Sandbox(SandboxLimits(processes=8, wall_s=3)) as sandbox:
    for code in ("import os; print(os.getuid(), os.path.exists('/root'))", {BOMB!r}):
        print(sandbox.python(code).stdout, end="")
    print(sandbox.shell("touch /usr/x /etc/x; mount -t tmpfs x /work; cat /proc/1/environ; echo $?").stdout, end="")
    print(sandbox.python("while True: pass", wall_s=0.2).timed_out, sandbox.python("print('next')").stdout, end="")
"""


@pytest.fixture
def source_for_anybody() -> Iterator[Path]:
    """A copy of the package that every user may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "openenv").mkdir()
    shutil.copytree(SOURCE / "openenv", folder / "openenv", dirs_exist_ok=True)
    yield folder
    shutil.rmtree(folder)


ORDINARY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
ROOT_WITHOUT_OTHER_USERS = [*ORDINARY, "unshare", "--user", "--map-root-user"]  # as in a container without privileges


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests already run as an ordinary user")
@pytest.mark.needs("sandbox", "unshare")
@pytest.mark.parametrize("become", [ORDINARY, ROOT_WITHOUT_OTHER_USERS], ids=["ordinary", "root"])
def test_users_who_are_not_the_machines_root_have_it_too(source_for_anybody: Path, become: list[str]) -> None:
    ended = subprocess.run(
        [*become, "/usr/bin/python3", "-S", "-c", ATTEMPTS],
        env={"PYTHONPATH": str(source_for_anybody), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["1000 False", "True", "1", "True next"]
