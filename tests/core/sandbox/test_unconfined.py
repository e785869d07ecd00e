"""No sandbox: the same calls, limits where the system has them, and nothing left behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.sandbox.conftest import Started
from tests.support.sandbox.waiting import until

from openenv.core.sandbox import Sandbox, SandboxLimits


@pytest.fixture
def unconfined(limits: SandboxLimits) -> Iterator[Sandbox]:
    with Sandbox(limits, kind="none") as sandbox:
        yield sandbox
        assert sandbox.python("print('the next step')").stdout == "the next step\n"


def test_the_same_calls(unconfined: Sandbox) -> None:
    unconfined.write_file("a/b", "x")
    assert unconfined.shell("cd a && export A=1").exit_code == 0
    assert unconfined.shell("cat b; echo $A").stdout == "x1\n"
    assert unconfined.python("x = 1; print(open('a/b').read())").stdout == "x\n"
    assert unconfined.python("x", echo=True).stdout == "1\n"
    assert unconfined.read_file("a/b") == b"x"
    assert unconfined.run(["pwd"]).stdout.strip() == unconfined.run(["sh", "-c", "echo $HOME"]).stdout.strip()


def test_what_is_started_ends(unconfined: Sandbox, started: Started) -> None:
    code = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid(); os.fork(); time.sleep(60)"
    assert not unconfined.python(code).interpreter_lost
    assert unconfined.python("while True: pass", wall_s=0.2).timed_out
    unconfined.shell("(setsid sleep 60 &)")
    (first,) = [child for child in started() if "guest.init" in " ".join(child.cmdline())]
    until(lambda: len(first.children(recursive=True)) == 1)


def test_memory_and_variables_are_kept(unconfined: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MemoryError" in unconfined.python("bytearray(10**9)").stderr
    monkeypatch.setenv("OPENENV_TOKEN", "a-secret-of-the-server")
    with Sandbox(kind="none") as sandbox:
        assert "a-secret" not in sandbox.shell("env").stdout


def test_the_folder_goes_with_it(limits: SandboxLimits) -> None:
    with Sandbox(limits, kind="none") as sandbox:
        folder = Path(sandbox.run(["pwd"]).stdout.strip())
        sandbox.write_file("a/b", "x")
        pid = int(sandbox.shell("(sleep 60 & echo $!)").stdout)
        assert (folder / "a" / "b").read_text() == "x"
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
