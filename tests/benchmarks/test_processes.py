"""A server's CPU and memory are those of all its processes, and cores are given back."""

import os
import socket
import subprocess
import sys
import time

import psutil
import pytest
from benchmarks.processes import cpu_seconds, every_core, pinned, reserve_port

SPIN = "import time; end = time.thread_time() + 0.3\nwhile time.thread_time() < end: pass\ninput()"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has clocks of other processes")
def test_the_cpu_time_of_a_process_is_counted_finely_and_stands_still_while_it_waits() -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE) as process:
        watched = psutil.Process(process.pid)
        deadline = time.monotonic() + 30
        while watched.status() != psutil.STATUS_SLEEPING or cpu_seconds(watched) < 0.3:
            assert time.monotonic() < deadline
        spent = cpu_seconds(watched)
        assert cpu_seconds(watched) == spent
        times = watched.cpu_times()
        process.communicate(b"\n")

    assert abs(spent - times.user - times.system) < 0.03  # hundredths of a second, twice rounded
    assert round(spent, 2) != spent


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a server listen beside a socket that is bound")
def test_the_port_of_a_server_that_starts_is_given_to_no_other_program() -> None:
    with reserve_port() as reserved:
        address = reserved.getsockname()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        with socket.create_server(address), socket.create_connection(address, timeout=60):
            pass


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux lets a process choose its cores")
def test_cores_are_given_back_even_after_a_failure() -> None:
    before = every_core()
    one = {min(before)}

    with pinned(one):
        assert every_core() == one
    assert every_core() == before

    with pytest.raises(ZeroDivisionError), pinned(one):
        _ = 1 / 0
    assert every_core() == before
