"""Code that leaves threads and processes behind; the fixture then asks for a next step."""

import time

import pytest
from tests.support.sandbox.waiting import until

from openenv.core.sandbox import Sandbox

pytestmark = pytest.mark.needs("sandbox")

_BEAT = "while True:\n    open('/work/beat', 'a').write('x')\n    time.sleep(0.01)"


def beats(sandbox: Sandbox) -> int:
    return len(
        sandbox.python(
            "import os; print('x' * os.path.getsize('/work/beat') if os.path.exists('/work/beat') else '', end='')"
        ).stdout
    )


STARTS = [
    "threading.Thread(target=beat).start()",
    "threading.Thread(target=beat, daemon=True).start()",
    "os.fork() or beat()",
    "subprocess.Popen([sys.executable, '-c', 'import time\\n' + BEAT], start_new_session=True)",
    "(os.fork() or (os.setsid(), os.fork() or beat(), os._exit(0)))",
    "multiprocessing.get_context('fork').Process(target=beat).start()",
]


def test_what_a_step_has_started_ends_with_it(sandbox: Sandbox) -> None:
    for start in STARTS:
        sandbox.shell("rm -f beat")
        code = f"""
import multiprocessing, os, subprocess, sys, threading, time
BEAT = {_BEAT!r}
kept = 5
def beat(): exec(BEAT)
{start}
while not (os.path.exists("/work/beat") and os.path.getsize("/work/beat")): time.sleep(0.01)
"""
        execution = sandbox.python(code)
        assert (execution.exit_code, execution.interpreter_lost) == (0, False), start
        before = beats(sandbox)
        assert 0 < before == beats(sandbox), start
        shown = sandbox.python("print(kept, threading.active_count(), len(os.listdir('/proc/self/task')))").stdout
        assert shown == "5 1 1\n", start


def test_what_a_command_has_started_ends_with_it(sandbox: Sandbox) -> None:
    sandbox.shell("sleep 600 & (setsid sleep 600 &) ; nohup sleep 600 & disown -a")
    assert "sleep" not in sandbox.shell("ps -e").stdout
    sandbox.run(["sh", "-c", "sleep 600 & exit 0"])
    assert "sleep" not in sandbox.shell("ps -e").stdout


WAKING = """
import ctypes, signal, time
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("how", ctypes.c_int), ("_", ctypes.c_byte * 48)]
timer = ctypes.c_int()
libc = ctypes.CDLL("librt.so.1")
assert libc.timer_create(1, ctypes.byref(Event(signal=signal.SIGCONT)), ctypes.byref(timer)) == 0
assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)({again}, 0, 0, 100_000_000), None) == 0
def beat(*_):
    while True: open("/work/beat", "a").write("x")
signal.signal(signal.SIGCONT, beat)
"""


def test_a_timer_does_not_wake_the_interpreter_between_two_steps(sandbox: Sandbox) -> None:
    for again in (0, 1):
        sandbox.write_file("beat", "")
        assert sandbox.python(WAKING.format(again=again)).exit_code == 0
        until(lambda: sandbox.read_file("beat", 2**30) != b"")
        time.sleep(0.3)  # more than it takes to be noticed
        beats = sandbox.read_file("beat", 2**30)
        time.sleep(0.1)
        assert sandbox.read_file("beat", 2**30) == beats
        assert sandbox.python("print(1)").interpreter_lost


def test_a_command_may_wake_the_interpreter_while_it_runs(sandbox: Sandbox) -> None:
    sandbox.python("x = 1")
    for command in ("kill -CONT -1", "kill -CONT -1; kill -STOP 2; kill -CONT 2", "kill -CONT -1; sleep 0.1", "true"):
        sandbox.shell(command)
        time.sleep(0.3)  # more than it takes to be noticed, if that was to be
    execution = sandbox.python("x", echo=True)
    assert (execution.stdout, execution.interpreter_lost) == ("1\n", False)


def test_an_alarm_ends_with_its_step(sandbox: Sandbox) -> None:
    sandbox.python("import signal\nfor timer in (0, 1, 2): signal.setitimer(timer, 0.05)")
    execution = sandbox.python("import time\nbusy = sum(range(3_000_000))\ntime.sleep(0.1)\nprint('slept')")
    assert (execution.stdout, execution.interpreter_lost) == ("slept\n", False)


def test_what_has_ended_takes_no_room(sandbox: Sandbox) -> None:
    """Neither for the interpreter nor for commands: the sandbox's first process reaps all others."""
    code = "import os, signal\nfor _ in range(14):\n    if os.fork() == 0: signal.pause()"
    for _ in range(3):
        execution = sandbox.python(code)
        assert (execution.stderr, execution.interpreter_lost) == ("", False)
        until(lambda: _processes(sandbox) <= 5)  # the first process, the interpreter, sh, ls, wc


def _processes(sandbox: Sandbox) -> int:
    return int(sandbox.shell("ls -d /proc/[0-9]* | wc -l").stdout)
