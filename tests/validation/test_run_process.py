"""Checks in a process of their own: whatever an author's code does to it is a finding."""

from pathlib import Path

import pytest
from tests.support.broken_environments import IN_PROCESS, Broken

from openenv.validation.run_checks import RUN_CHECKS
from openenv.validation.run_process import run_in_process
from openenv.validation.trials import RunLimits

pytestmark = pytest.mark.level("process")


@pytest.mark.parametrize("broken", IN_PROCESS, ids=lambda broken: broken.name)
def test_code_that_ends_the_process_fails_the_check_that_ran_it(tmp_path: Path, broken: Broken) -> None:
    found = run_in_process(broken.write(tmp_path), RunLimits())
    assert [result.check_id.removeprefix("runtime.") for result in found] == [
        "startup",
        "reset",
        "seed_control",
        "tool_declaration_accuracy",
        "play",
    ]
    assert [result.status for result in found] == ["pass", "pass", "pass", "pass", "fail"]
    assert broken.evidence in found[-1].evidence[0], found[-1].evidence
    assert found[-1].remediation


def test_code_that_blocks_the_process_fails_the_check_that_ran_it(tmp_path: Path) -> None:
    hanging = "import ctypes; ctypes.PyDLL(None).sleep(1000)"  # which holds the lock of the interpreter
    folder = Broken("", "", "", [("player.py", "pass  # in the player", hanging)]).write(tmp_path)
    failed = run_in_process(folder, RunLimits(check_s=8.0))[-1]
    assert failed.status == "fail"
    assert "its process did not end within 8 s" in failed.evidence[0]


def test_what_the_code_prints_and_threads_that_it_leaves_are_no_part_of_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    left = "print('hello'); import threading; threading.Thread(target=threading.Event().wait).start()"
    folder = Broken("", "", "", [("player.py", "pass  # in the player", left)]).write(tmp_path)
    found = run_in_process(folder, RunLimits())
    ids = [check_id for check in RUN_CHECKS for check_id in dict.fromkeys((check.id, check.warns_as)) if check_id]
    assert [(result.check_id, result.status) for result in found] == [(check_id, "pass") for check_id in ids]
    assert capfd.readouterr().out == ""
