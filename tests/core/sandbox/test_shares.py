"""Code that takes more than its share; the fixture then asks for a next step."""

import pytest
from tests.support.sandbox.attacks import attempt

from openenv.core.exceptions import SandboxFileError
from openenv.core.sandbox import Sandbox, SandboxLimits

pytestmark = pytest.mark.needs("sandbox")


def test_a_fork_bomb_ends_with_its_step(sandbox: Sandbox) -> None:
    execution = sandbox.python("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", wall_s=1)
    assert execution.stopped
    assert execution.interpreter_lost
    execution = sandbox.shell("bomb() { bomb | bomb & }; bomb; while :; do :; done", wall_s=1)
    assert execution.stopped
    assert sandbox.shell("ls -d /proc/[0-9]* | wc -l").stdout.strip() in (
        "3",
        "4",
        "5",
    )  # 1, the interpreter, this pipe's


def test_no_more_processes_than_allowed(sandbox: Sandbox, limits: SandboxLimits) -> None:
    code = """
import os, time
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except OSError as error:
    print(count, error.errno)
"""
    execution = sandbox.python(code)
    count, number = map(int, execution.stdout.split())
    assert limits.processes - 2 <= count <= limits.processes + 2
    assert number == 11


def test_too_many_threads_can_not_be_started(sandbox: Sandbox) -> None:
    code = "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    assert "can't start new thread" in sandbox.python(code).stderr


def test_memory_is_limited_for_one(sandbox: Sandbox) -> None:
    execution = sandbox.python("x = 5\nhog = bytearray(10**9)")
    assert "MemoryError" in execution.stderr
    assert sandbox.python("print(x)").stdout == "5\n"


def test_memory_is_limited_for_many_together(sandbox: Sandbox) -> None:
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        hog = bytearray(b"x") * (80 * 2**20)
        time.sleep(60)
time.sleep(60)
"""
    execution = sandbox.python(code)
    assert "memory" in execution.stopped
    assert not execution.timed_out


def test_memory_that_is_shared_without_a_file_counts(sandbox: Sandbox) -> None:
    code = """
import mmap, os, time
for _ in range(4):
    if os.fork() == 0:
        hog = mmap.mmap(-1, 80 * 2**20)
        for place in range(0, len(hog), 4096): hog[place] = 1
        time.sleep(60)
time.sleep(60)
"""
    execution = sandbox.python(code)
    assert "memory" in execution.stopped
    assert not execution.timed_out


def test_shared_memory_counts_as_disk(sandbox: Sandbox) -> None:
    lines = attempt(
        sandbox,
        """
def fill(path):
    with open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(2**20))
for path in ("/work/a", "/tmp/a", "/dev/shm/a"):
    tried(path, lambda: fill(path))
    tried(path, lambda: fill(path + "2"))
import os
print(sum(os.stat(path).st_size for path in ("/work/a", "/tmp/a", "/dev/shm/a")) // 2**20)
""",
    )
    assert lines == [f"{path}: OSError" for path in ("/work/a", "/tmp/a", "/dev/shm/a") for _ in range(2)] + ["24"]
    sandbox.shell("rm -f /work/a* /tmp/a* /dev/shm/a*")


def test_a_full_disk_breaks_nothing(sandbox: Sandbox) -> None:
    sandbox.shell("head -c 100000000 /dev/zero > /work/a; head -c 100000000 /dev/zero > /tmp/a")
    with pytest.raises(SandboxFileError, match="No space left"):
        sandbox.write_file("b", b"x" * 10_000)


def test_too_many_files_cost_the_sandbox(sandbox: Sandbox) -> None:
    code = "for number in range(10_000_000): open(f'/tmp/{number}', 'w').close()"
    execution = sandbox.python(code)
    assert "500 files" in execution.stopped
    assert execution.files_lost
    execution = sandbox.run(["python3", "-c", code])
    assert execution.files_lost


def test_too_many_open_files_are_refused(sandbox: Sandbox) -> None:
    execution = sandbox.python("held = []\nwhile True: held.append(open('/dev/null'))")
    assert "Too many open files" in execution.stderr
    assert not execution.interpreter_lost
    assert sandbox.python("print(len(held) > 50)").stdout == "True\n"


def test_output_is_bounded_while_it_comes(sandbox: Sandbox, limits: SandboxLimits) -> None:
    for execution in (
        sandbox.python("import sys\nfor _ in range(5000): print('x' * 10_000); sys.stderr.write('y' * 10_000)"),
        sandbox.shell("yes | head -c 50000000; yes | head -c 50000000 >&2"),
    ):
        assert execution.exit_code == 0
        assert execution.truncated
        assert len(execution.stdout) == len(execution.stderr) == limits.output_bytes
    assert not sandbox.python("print('short')").truncated


ENDLESS = [
    "while True: pass",
    "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
    "import signal\nfor n in {*range(1, 65)} - {9, 19, 32, 33}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "10 ** 10 ** 10",
    "import re; re.match('(a*)*b', 'a' * 100)",
    "input_ = open(3).read()",
]


def test_a_loop_without_end_is_ended(sandbox: Sandbox) -> None:
    sandbox.write_file("kept", "kept")
    for code in ENDLESS:
        execution = sandbox.python("x = 1\nprint('before')\n" + code, wall_s=0.3)
        assert execution.duration_s < 3, code
        assert execution.interpreter_lost
        assert not execution.files_lost
        assert "NameError" in sandbox.python("x").stderr
    assert sandbox.read_file("kept") == b"kept"


def test_time_of_the_processor_is_limited_for_all_together(limits: SandboxLimits) -> None:
    with Sandbox(SandboxLimits(wall_s=20, cpu_s=0.3)) as sandbox:
        code = "import os\nos.fork(); os.fork()\nwhile True: pass"
        execution = sandbox.python(code)
        assert "CPU" in execution.stopped
        assert not execution.timed_out
        assert "CPU" in sandbox.shell("while :; do /bin/true; done").stopped  # each of them short
