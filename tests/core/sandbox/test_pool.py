"""Pools: what was taken is new, ready ones are handed out, and nothing is left behind."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import psutil
import pytest
from tests.core.sandbox.conftest import Started
from tests.support.sandbox.waiting import until

from openenv.core.exceptions import ConfigurationError, SandboxFileError
from openenv.core.sandbox import SandboxLimits, SandboxPool

pytestmark = pytest.mark.needs("sandbox")


def test_a_sandbox_is_handed_out_once(limits: SandboxLimits, started: Started) -> None:
    with SandboxPool(2, limits) as pool:
        pool.warm()
        until(lambda: pool.ready == 2)
        for _ in range(5):
            with pool.take() as sandbox:
                assert sandbox.python("print('x' in globals())\nx = 1").stdout == "False\n"
                assert sandbox.shell("ls; touch here").stdout == ""
        until(lambda: pool.ready == 2)
    assert started() == []


def test_copies_are_all_that_a_fresh_sandbox_has_of_another(limits: SandboxLimits) -> None:
    with SandboxPool(0, limits) as pool, pool.take() as agents:
        agents.shell("mkdir work; echo mine > work/a.txt; echo mine > b.txt; export MARK=1 PATH=$PWD:$PATH")
        with pool.take_with(agents, ["work/a.txt"], {"b.txt": "ours"}) as fresh:
            found = fresh.shell(
                "find . -type f | sort; cat work/a.txt b.txt; echo mark $MARK; case $PATH in *work*) echo path;; esac"
            )
            assert found.stdout == "./b.txt\n./work/a.txt\nmine\nours" + "mark\n"
        with pytest.raises(SandboxFileError):
            pool.take_with(agents, ["missing.txt"])


def test_many_take_at_once(limits: SandboxLimits) -> None:
    with SandboxPool(2, limits) as pool, ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(lambda _: pool.take(), range(8)))
        assert list(threads.map(lambda sandbox: sandbox.python("print(1)").stdout, taken)) == ["1\n"] * 8
        for sandbox in taken:
            sandbox.close()


def test_a_sandbox_outlives_the_thread_that_took_it(limits: SandboxLimits) -> None:
    with SandboxPool(1, limits) as pool:
        taken = []
        thread = threading.Thread(target=lambda: taken.append(pool.take()))
        thread.start()
        thread.join()
        (sandbox,) = taken
        assert sandbox.python("print(1)").stdout == "1\n"
        assert not sandbox.python("x").files_lost
        sandbox.close()


def test_one_that_died_while_it_waited_is_not_handed_out(limits: SandboxLimits, started: Started) -> None:
    with SandboxPool(1, limits) as pool:
        pool.warm()
        until(lambda: pool.ready == 1)
        (process,) = started()
        process.kill()
        until(lambda: process.status() == psutil.STATUS_ZOMBIE)
        with pool.take() as sandbox:
            execution = sandbox.python("print(1)")
            assert (execution.stdout, execution.files_lost) == ("1\n", False)


def test_a_pool_of_none_starts_each_when_it_is_taken(limits: SandboxLimits) -> None:
    with SandboxPool(0, limits) as pool:
        pool.warm()
        with pool.take() as sandbox:
            assert sandbox.python("print(1)").stdout == "1\n"
        assert pool.ready == 0


def test_a_fork_has_a_pool_of_its_own(limits: SandboxLimits) -> None:
    with SandboxPool(1, limits) as pool:
        pool.warm()
        until(lambda: pool.ready == 1)
        child = os.fork()
        if child == 0:
            with pool.take() as sandbox:
                right = sandbox.python("print(1)").stdout == "1\n"
            pool.close()
            os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pool.take() as sandbox:
            assert not sandbox.python("1").files_lost


def test_a_closed_pool_gives_none(limits: SandboxLimits, started: Started) -> None:
    pool = SandboxPool(1, limits)
    pool.warm()
    pool.close()
    with pytest.raises(ConfigurationError, match="closed"):
        pool.take()
    until(lambda: started() == [])  # one was perhaps on its way
    with pytest.raises(ConfigurationError, match="size is -1"):
        SandboxPool(-1)


EXITING = """
import atexit, time
from openenv.core.sandbox import SandboxPool
pool = SandboxPool(100)
pool.warm()
taken = pool.take()
atexit.register(lambda: print(taken.python("print('still there')").stdout, end=""))
atexit.register(time.sleep, 0.3)  # while it fills up
"""


def test_an_exit_meanwhile_logs_nothing_and_leaves_what_was_taken_to_the_last() -> None:
    ended = subprocess.run([sys.executable, "-c", EXITING], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("still there\n", "", 0)


SHARED = """
import atexit
from openenv.core.sandbox import SandboxLimits, SandboxPool
pool = SandboxPool.shared(0, SandboxLimits(cpu_s=5.0))
atexit._run_exitfuncs()
try:
    pool.take()
except ValueError as error:
    print(error)
"""


def test_a_shared_pool_is_one_for_all_with_its_settings_and_ends_with_the_process() -> None:
    pool = SandboxPool.shared(0, SandboxLimits(cpu_s=5.0))
    assert pool is SandboxPool.shared(0, SandboxLimits(cpu_s=5.0))
    assert pool is not SandboxPool.shared(0, SandboxLimits(cpu_s=6.0))
    with pool.take() as sandbox:
        assert sandbox.python("print(1)").stdout == "1\n"
    ended = subprocess.run([sys.executable, "-c", SHARED], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("The pool of sandboxes is closed; make another one.\n", "")


def test_what_can_not_be_kept_ready_is_told_to_whoever_takes_one(caplog: pytest.LogCaptureFixture) -> None:
    before = set(threading.enumerate())
    with SandboxPool(1, packages=["no-such-package"]) as pool:
        pool.warm()
        until(lambda: "No sandbox could be kept ready" in caplog.text)
        with pytest.raises(ConfigurationError, match=r"'no-such-package'.*not installed here"):
            pool.take()
        until(lambda: not set(threading.enumerate()) - before)


def test_a_pool_fills_again_after_an_error_that_nobody_expects(
    limits: SandboxLimits, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SandboxPool(1, limits) as pool:
        with monkeypatch.context() as broken:
            broken.setattr("openenv.core.sandbox.pool.Sandbox", _raise_key_error)
            pool.warm()
            until(lambda: "No sandbox could be kept ready" in caplog.text)
            until(lambda: all(thread.name != "openenv-sandbox-pool" for thread in threading.enumerate()))
        pool.warm()
        until(lambda: pool.ready == 1)


def _raise_key_error(*_arguments: object) -> NoReturn:
    raise KeyError("unexpected")
