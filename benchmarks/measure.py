"""The measurements. Servers run on one core, clients on another; the rounds of all servers are interleaved."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.processes import ServerProcess, pin, split_cores
from benchmarks.public_package import ROOT, public_python
from benchmarks.rows import Samples
from benchmarks.wire_client import open_sessions, step_all

PROGRAMS = "benchmarks.programs"
OUR_PYTHON = Path(sys.executable)
WARM_UP_STEPS = 20


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: Figures per row and server.
        steps: Steps of each of the 64 sessions in a round.
        threaded_steps: Steps of each of the 64 clients in threads in a round.
        round_trips: Steps of the one session in a round.
        idle_sessions: Sessions whose memory is measured.
        imports: Fresh interpreters that import the package in a round.
        sizes: Whether the core is installed into a fresh environment, which takes a minute.
    """

    rounds: int
    steps: int
    threaded_steps: int
    round_trips: int
    idle_sessions: int
    imports: int
    sizes: bool


FULL = Effort(rounds=5, steps=500, threaded_steps=100, round_trips=2000, idle_sessions=500, imports=3, sizes=True)
QUICK = Effort(rounds=1, steps=30, threaded_steps=10, round_trips=200, idle_sessions=50, imports=1, sizes=False)


@contextmanager
def _running_servers(cores: set[int]) -> Iterator[dict[str, ServerProcess]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(ServerProcess(python, f"{PROGRAMS}.{program}", arguments, cores))
            for name, python, program, arguments in (
                ("floor", OUR_PYTHON, "serve_echo", ()),
                ("public", public_python(), "serve_public", ()),
                ("ours", OUR_PYTHON, "serve_ours", ("--non-blocking",)),
                ("ours_threaded", OUR_PYTHON, "serve_ours", ()),
            )
        }


def measure(effort: Effort, report: Callable[[str], None]) -> Samples:
    """Measure every row.

    Args:
        effort: How much.
        report: Told what is going on, one line at a time.
    """
    samples = Samples()
    server_cores, client_cores = split_cores()
    pin(0, client_cores)
    with _running_servers(server_cores) as servers:
        for round_number in range(1, effort.rounds + 1):
            report(f"round {round_number} of {effort.rounds}: server CPU and round trips")
            _measure_server_cpu(servers, effort, samples)
            _measure_round_trips(servers, effort, samples)
            _measure_clients(servers, effort, samples)
    for round_number in range(1, effort.rounds + 1):
        report(f"round {round_number} of {effort.rounds}: memory and imports")
        _measure_session_memory(server_cores, effort, samples)
        _measure_imports(effort, samples)
    if effort.sizes:
        report("installing the core into a fresh environment to see its size")
        _measure_sizes(samples)
    return samples


def _measure_server_cpu(servers: dict[str, ServerProcess], effort: Effort, samples: Samples) -> None:
    figures = {name: uvloop.run(_cpu_per_step(server, 64, effort.steps)) for name, server in servers.items()}
    # The public package has one way to run an environment and the echo server none: their figure serves both rows.
    for name in ("floor", "public", "ours"):
        samples.add("cpu_non_blocking", name, figures[name])
    for row_name, server_name in (("floor", "floor"), ("public", "public"), ("ours", "ours_threaded")):
        samples.add("cpu_threaded", row_name, figures[server_name])


async def _cpu_per_step(server: ServerProcess, sessions: int, steps: int) -> float:
    opened = await open_sessions(server.port, sessions)
    await step_all(opened, WARM_UP_STEPS)
    before = server.cpu_seconds()
    await step_all(opened, steps)
    spent = server.cpu_seconds() - before
    for session in opened:
        session.close()
    return spent / (sessions * steps)


def _measure_round_trips(servers: dict[str, ServerProcess], effort: Effort, samples: Samples) -> None:
    for name in ("floor", "public", "ours"):
        samples.add("round_trip", name, uvloop.run(_round_trip(servers[name], effort.round_trips)))


async def _round_trip(server: ServerProcess, steps: int) -> float:
    opened = await open_sessions(server.port, 1)
    await step_all(opened, WARM_UP_STEPS)
    latencies = await step_all(opened, steps)
    opened[0].close()
    return statistics.median(latencies)


def _measure_clients(servers: dict[str, ServerProcess], effort: Effort, samples: Samples) -> None:
    for name, python in (("public", public_python()), ("ours", OUR_PYTHON)):
        port = servers[name].port
        samples.add("round_trip_async", name, _drive(python, port, "async", effort.round_trips))
        samples.add("round_trip_sync", name, _drive(python, port, "sync", effort.round_trips))
        samples.add("threaded_clients", name, _drive(python, port, "threads", effort.threaded_steps))


def _drive(python: Path, port: int, mode: str, steps: int) -> float:
    url = f"http://127.0.0.1:{port}"
    command = [str(python), "-m", f"{PROGRAMS}.drive_client", mode, "--url", url, "--steps", str(steps)]
    return float(json.loads(_output(command)))


def _measure_session_memory(cores: set[int], effort: Effort, samples: Samples) -> None:
    # A server of its own each: memory that an earlier measurement left free would hide what sessions need.
    for name, python, program, arguments in (
        ("floor", OUR_PYTHON, "serve_echo", ()),
        ("public", public_python(), "serve_public", ()),
        ("ours", OUR_PYTHON, "serve_ours", ("--non-blocking",)),
    ):
        with ServerProcess(python, f"{PROGRAMS}.{program}", arguments, cores) as server:
            samples.add("session_memory", name, uvloop.run(_memory_per_session(server, effort.idle_sessions)))


async def _memory_per_session(server: ServerProcess, count: int) -> float:
    first = await open_sessions(server.port, WARM_UP_STEPS)
    before = server.memory_bytes()
    idle = await open_sessions(server.port, count)
    used = server.memory_bytes() - before
    for session in first + idle:
        session.close()
    return used / count


def _measure_imports(effort: Effort, samples: Samples) -> None:
    for name, python in (("public", public_python()), ("ours", OUR_PYTHON)):
        for _ in range(effort.imports):
            # Both packages import some names on first use only: these two are what every user touches.
            spent = _seconds([str(python), "-c", "from openenv.core import EnvClient, Environment"])
            samples.add("import_time", name, max(spent - _seconds([str(python), "-c", "pass"]), 0.0))


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    _output(command)
    return time.perf_counter() - started


def _measure_sizes(samples: Samples) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "venv"
        _output([sys.executable, "-m", "venv", str(fresh)])
        empty = _bytes_under(fresh)
        _output([str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", str(ROOT)])
        samples.add("installed_size", "ours", _bytes_under(fresh) - empty)
    samples.add("installed_size", "public", _bytes_under(public_python().parent.parent) - empty)


def _bytes_under(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def _output(command: list[str]) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if finished.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {finished.returncode}:\n{finished.stderr}")
    return finished.stdout
