"""The benchmark of starts measures servers and commands that work, and says so of those that do not."""

import os
import sys

import pytest
from benchmarks.starts import command_cpu, server_cpu


def test_a_server_costs_more_than_an_interpreter_that_does_nothing() -> None:
    assert 0 < command_cpu(["-c", "pass"], os.environ) < server_cpu("echo", os.environ)


def test_a_command_that_fails_is_not_measured() -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        command_cpu(["-c", "raise SystemExit(3)"], os.environ)


def test_the_processes_that_a_command_waits_for_count() -> None:
    child = "import time\nwhile time.process_time() < 0.2: pass"
    parent = f"import subprocess\nsubprocess.run([{sys.executable!r}, '-c', {child!r}], check=True)"

    assert command_cpu(["-c", parent], os.environ) >= 0.2
