"""The programs that drive a package's own client, against our server."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.bench import output
from benchmarks.processes import ServerProcess

SESSIONS = 64
SLEEP_S = 0.05


@pytest.fixture(scope="module")
def sleeping() -> Iterator[ServerProcess]:
    """A server whose steps take 50 ms."""
    with ServerProcess(Path(sys.executable), "benchmarks.programs.serve_ours", ("--environment", "sleeping")) as server:
        yield server


def drive(program: str, mode: str, server: ServerProcess, steps: int) -> float:
    """Run a program of the benchmarks to its end, and return the figure that it prints."""
    module = f"benchmarks.programs.{program}"
    return float(output(sys.executable, "-m", module, mode, "--url", server.url, "--steps", str(steps)))


def test_sync_clients_one_after_another_wait_for_every_step(sleeping: ServerProcess) -> None:
    assert drive("drive_client", "turn", sleeping, 1) >= SESSIONS * SLEEP_S


def test_a_vector_waits_for_its_slots_together(sleeping: ServerProcess) -> None:
    assert SLEEP_S <= drive("drive_vector", "turn", sleeping, 3) < SESSIONS * SLEEP_S / 4


@pytest.mark.parametrize("mode", ["together", "threads"])
def test_clients_wait_side_by_side(sleeping: ServerProcess, mode: str) -> None:
    one_after_another = 1 / SLEEP_S

    assert 4 * one_after_another < drive("drive_client", mode, sleeping, 3) <= SESSIONS / SLEEP_S


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_single_client_waits_for_its_step(sleeping: ServerProcess, mode: str) -> None:
    assert SLEEP_S <= drive("drive_client", mode, sleeping, 3) < 1
