"""What is left of a fleet: nothing, however it ends, but for its journal; and a Ray that was there before."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from tests.support.servers import eventually

from openenv import GenericEnvClient

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
SERVER = "ray::ReplicaSe"  # of a process's name, Linux keeps 15 characters
OWN_FOLDER = re.compile(r"/\S*/oe-\w+(?=/)")

IN_A_RAY_OF_THE_PROGRAM = """
import ray
from openenv.core.providers.resources import Resources
from openenv.fleet import Fleet
from tests.chaos.environments import ChainEnvironment

ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
with Fleet(ChainEnvironment, replicas=2, resources=Resources(cpus=0.5)) as fleet:
    pids = [replica.pid for replica in fleet.status().replicas]
assert ray.is_initialized()
assert ray.get(ray.remote(lambda: "here").remote()) == "here"
print("pids", *pids)
"""

WITHOUT_A_CLOSE = """
import psutil
from openenv.core.exceptions import ProviderError
from openenv.fleet import Fleet
from tests.chaos.environments import ChainEnvironment

try:
    Fleet("no_such_environment").start()
except ProviderError as error:
    assert "no_such_environment" in str(error), error
_, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=60)
assert not left, left
Fleet(ChainEnvironment).start()
print("pids", *(process.pid for process in psutil.Process().children(recursive=True)))
"""


@contextmanager
def served(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A fleet on the command line, in a process group of its own, as a terminal has it."""
    command = [sys.executable, "-m", "openenv.cli", "serve", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"no {text!r} in {lines}")


def port_of(process: subprocess.Popen[str]) -> int:
    """Wait until a fleet of one server serves, and return its port."""
    lines = read_until(process, "1 server with")
    said = re.search(r"Serving catch at http://127\.0\.0\.1:(\d+)", lines[0])
    assert said is not None, lines
    return int(said[1])


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if is_alive(process)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it ended between the two questions
        return False


def names(processes: list[psutil.Process]) -> set[str]:
    found = set()
    for process in alive(processes):
        with suppress(psutil.NoSuchProcess):
            found.add(process.name()[:14])
    return found


def runs(pid: int) -> bool:
    try:
        return bool(alive([psutil.Process(pid)]))
    except psutil.NoSuchProcess:
        return False


def folder_of(processes: list[psutil.Process]) -> Path:
    return Path(next(found[0] for one in processes if (found := OWN_FOLDER.findall(" ".join(one.cmdline())))))


def listening_beyond_loopback(processes: list[psutil.Process]) -> list[object]:
    listening = [socket for one in processes for socket in one.net_connections("tcp") if socket.status == "LISTEN"]
    assert listening
    return [one for one in listening if one.laddr[0] not in ("127.0.0.1", "::1", "::ffff:127.0.0.1")]


def run(program: str) -> list[int]:
    """Run a program with a fleet to its end; return the processes that it names."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_AUTH_TOKEN": "a" * 32}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return [int(pid) for pid in done.stdout.split("pids")[1].split()]


def test_a_killed_fleet_goes_on_when_it_is_started_again_and_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    arguments = ("catch", "--fleet", "ray", "--journal", tmp_path / "journal", "--resume-window-s", 250)
    left, right = {"move": "left"}, {"move": "right"}
    with served(*arguments, "--port", 0) as process:
        port = port_of(process)
        env = GenericEnvClient(base_url=f"http://127.0.0.1:{port}", message_timeout_s=250.0).sync()
        played = [env.reset(seed=3), env.step(left)]
        started = psutil.Process(process.pid).children(recursive=True)
        folder = folder_of(started)
        process.kill()
        eventually(lambda: not {"raylet", "gcs_server", SERVER} & names(started), "Ray and the servers end")
        for agent in alive(started):  # two of Ray's own, which end a minute or two later
            agent.kill()
        eventually(lambda: not alive(started), "all processes end")
        shutil.rmtree(folder)  # which nobody is left to remove
    with served(*arguments, "--port", port) as process, env:
        assert port_of(process) == port
        played += [env.step(right), env.step(right)]
        assert played == [env.reset(seed=3), *map(env.step, (left, right, right))]
        started = psutil.Process(process.pid).children(recursive=True)
        assert {"gcs_server", "raylet", SERVER} <= names(started)
        assert not listening_beyond_loopback(started)
        folder = folder_of(started)
        process.send_signal(signal.SIGHUP)
        read_until(process, "Updating")
        os.killpg(process.pid, signal.SIGINT)  # which does not wait for the update
        assert process.wait(PATIENCE_S) == 130
        eventually(lambda: not alive(started), "all processes end")
        assert not folder.exists()


def test_a_program_that_does_not_close_its_fleet_leaves_nothing_and_neither_does_an_error_at_the_start() -> None:
    processes = run(WITHOUT_A_CLOSE)
    assert len(processes) > 2
    eventually(lambda: not any(map(runs, processes)), "all processes end")


def test_a_ray_of_the_program_is_used_and_left_running() -> None:
    pids = run(IN_A_RAY_OF_THE_PROGRAM)
    assert len(pids) == 2
    assert not any(map(runs, pids))
