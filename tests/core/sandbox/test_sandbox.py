"""A sandbox as environments use it: what stays from call to call, what does not, and what a result says."""

import signal

import psutil
import pytest
from tests.core.sandbox.conftest import Started
from tests.support.sandbox.waiting import until

from openenv.core.exceptions import ConfigurationError, SandboxFileError
from openenv.core.sandbox import Execution, Sandbox, SandboxLimits

pytestmark = pytest.mark.needs("sandbox")


def inside(process: psutil.Process) -> psutil.Process:
    """Return the first process of the sandbox that was started last."""
    outside = max(
        (child for child in process.children() if child.name() == "bwrap"), key=lambda child: child.create_time()
    )
    (first,) = outside.children()
    return first


def test_variables_stay_and_the_last_value_is_shown_on_demand(sandbox: Sandbox) -> None:
    assert sandbox.python("import math\nx = [1, 2]").exit_code == 0
    assert sandbox.python("x").stdout == ""
    assert sandbox.python("x.append(math.floor(3.5))\nx", echo=True).stdout == "[1, 2, 3]\n"
    assert sandbox.python("print('only this')", echo=True).stdout == "only this\n"
    assert sandbox.python("object()", echo=True).stdout.startswith("<object object at ")
    assert sandbox.python("float('nan'), 'ä'", echo=True).stdout == '[NaN, "\\u00e4"]\n'


def test_what_is_raised_shows_the_code_and_none_of_ours(sandbox: Sandbox) -> None:
    execution = sandbox.python("def f():\n    return 1 / 0\nf()")
    assert execution.exit_code == 1
    assert "/init" not in execution.stderr
    assert "guest" not in execution.stderr
    assert execution.stderr.splitlines()[1:] == [
        '  File "<step 1>", line 3, in <module>',
        "    f()",
        '  File "<step 1>", line 2, in f',
        "    return 1 / 0",
        "           ~~^~~",
        "ZeroDivisionError: division by zero",
    ]


def test_an_exit_ends_the_code_and_not_the_interpreter(sandbox: Sandbox) -> None:
    for code, exit_code, stderr in [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('why')", 1, "why\n"),
        ("raise SystemExit(256 + 7)", 7, ""),
        ("import sys; sys.exit()", 0, ""),
    ]:
        execution = sandbox.python("x = 1\n" + code)
        assert (execution.exit_code, execution.stderr, execution.interpreter_lost) == (exit_code, stderr, False)
        assert sandbox.python("print(x)").stdout == "1\n"


def test_code_is_compiled_by_a_process_that_has_run_none(sandbox: Sandbox) -> None:
    sandbox.python(
        "import builtins\nreal = compile\n"
        "builtins.compile = lambda text, *a, **k: real('pass' if 'broken' in text else text, *a, **k)"
    )
    assert sandbox.compiles("print(1)")
    assert not sandbox.compiles("def broken(:")
    assert not sandbox.compiles("\0")
    assert not sandbox.compiles("(" * 10_000)
    assert sandbox.python("def broken(:").exit_code == 0


def test_a_command_has_its_input_folder_and_variables(sandbox: Sandbox) -> None:
    sandbox.write_file(
        "folder/script.py", "import os, sys; print(os.getcwd(), os.environ['A'], sys.stdin.read(), sys.argv[1])"
    )
    execution = sandbox.run(
        ["python3", "script.py", "it's 1"], stdin="given " * 100_000, folder="folder", environment={"A": "b"}
    )
    assert execution.stdout.startswith("/work/folder b given given")
    assert execution.truncated
    assert sandbox.run(["false"]).exit_code == 1
    assert sandbox.run(["sh", "-c", "kill -TERM $$"]).exit_code == 128 + signal.SIGTERM
    assert sandbox.run(["no-such-program"]).exit_code == 127
    assert sandbox.run(["/work/folder/script.py"]).exit_code == 126
    assert "No such file" in sandbox.run(["true"], folder="nowhere").stderr


def test_input_that_nobody_reads_holds_nothing_up(sandbox: Sandbox) -> None:
    assert sandbox.run(["true"], stdin=b"x" * 10_000_000).exit_code == 0
    assert sandbox.run(["head", "-c", "3"], stdin=b"abcdef").stdout == "abc"
    assert sandbox.run(["cat"]).stdout == ""


def test_bytes_that_are_no_text_come_as_replacements(sandbox: Sandbox) -> None:
    assert sandbox.run(["printf", r"a\377b"]).stdout == "a\ufffdb"
    assert sandbox.python("print('\\ud800')").stdout == "\\ud800\n"


def test_the_shell_goes_on_where_it_was(sandbox: Sandbox) -> None:
    sandbox.shell("mkdir -p 'a b' && cd 'a b' && export NAME=\"it's\n two lines\" && own=1")
    assert sandbox.shell('pwd; echo "$NAME$own"').stdout == "/work/a b\nit's\n two lines\n"
    assert sandbox.shell("exit 3").exit_code == 3
    assert sandbox.shell("cd /tmp; exec true").exit_code == 0  # which leaves no word of where it was
    assert sandbox.shell("pwd").stdout == "/work/a b\n"
    assert sandbox.shell("cd .. && rm -r 'a b' && mkdir c && cd c && rmdir ../c").exit_code == 0
    assert sandbox.shell("pwd").stdout == "/work\n"
    assert sandbox.shell("cat <<END\nhere\nEND").stdout == "here\n"
    assert sandbox.shell("if").exit_code != 0
    assert sandbox.shell("export BIG=$(head -c 100000 /dev/zero | tr '\\0' x); echo ${#BIG}").stdout == "100000\n"
    assert sandbox.shell("echo ${#BIG}").stdout == "0\n"  # more than is kept
    assert "put longer input into a file" in sandbox.shell("#" * 200_000).stderr


def test_files_are_shared_by_all(sandbox: Sandbox) -> None:
    sandbox.write_file("a/b/c.txt", "ä")
    assert sandbox.shell("cat a/b/c.txt").stdout == "ä"
    assert sandbox.python("print(open('a/b/c.txt').read())").stdout == "ä\n"
    sandbox.python("open('a/d', 'wb').write(bytes(range(256)))")
    assert sandbox.read_file("a/d") == bytes(range(256))
    sandbox.write_file("a/d", b"")
    assert sandbox.read_file("a/d") == b""
    for path, most, says in [
        ("a/b", 10, "Is a directory"),
        ("a/none", 10, "No such file"),
        ("a/b/c.txt", 1, "longer than 1"),
    ]:
        with pytest.raises(SandboxFileError, match=says):
            sandbox.read_file(path, most)
    sandbox.python("import os; os.chmod('a/d', 0)")
    with pytest.raises(SandboxFileError, match="Permission denied"):
        sandbox.read_file("a/d")


def test_a_shorter_time_can_be_asked_for_and_no_longer_one(limits: SandboxLimits) -> None:
    with Sandbox(SandboxLimits(wall_s=0.5)) as sandbox:
        for wall_s, says in ((0.2, "0.2 s"), (60.0, "0.5 s")):
            execution = sandbox.run(["sleep", "60"], wall_s=wall_s)
            assert (execution.exit_code, execution.timed_out) == (124, True)
            assert says in execution.stopped
            assert not execution.interpreter_lost


@pytest.mark.parametrize("call", ["python", "shell", "run", "write_file"])
def test_a_sandbox_that_is_killed_from_outside_is_replaced(sandbox: Sandbox, call: str) -> None:
    sandbox.python("x = 1")
    inside(psutil.Process()).kill()
    if call == "write_file":
        with pytest.raises(SandboxFileError, match="files are lost"):
            sandbox.write_file("a", "b")
        return
    execution: Execution = getattr(sandbox, call)(["true"] if call == "run" else "1")
    assert execution.files_lost
    assert execution.interpreter_lost
    assert execution.stopped.startswith("The sandbox was replaced")


def test_a_first_process_that_hangs_is_replaced() -> None:
    with Sandbox(SandboxLimits(wall_s=0.1)) as sandbox:
        first = inside(psutil.Process())
        first.suspend()
        execution = sandbox.python("1")
        assert execution.files_lost
        assert execution.timed_out
        assert sandbox.python("print(1)").stdout == "1\n"
        until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE)


def test_a_closed_sandbox_says_so(limits: SandboxLimits) -> None:
    sandbox = Sandbox(limits)
    sandbox.close()
    sandbox.close()
    for call in (lambda: sandbox.python("1"), lambda: sandbox.read_file("a")):
        with pytest.raises(ConfigurationError, match="closed"):
            call()


def test_arguments_that_are_too_long_are_refused_and_cost_nothing(sandbox: Sandbox) -> None:
    sandbox.write_file("kept", "kept")
    for refused in (
        sandbox.run(["echo", "x" * 70_000]),
        sandbox.run(["true"], environment={"A": "x" * 70_000}),
        sandbox.run(["true"], folder="x" * 70_000),
    ):
        assert refused.exit_code == 126
        assert "put longer input into a file" in refused.stderr
    with pytest.raises(SandboxFileError):
        sandbox.read_file("a/" * 40_000 + "b")
    assert sandbox.read_file("kept") == b"kept"


def test_a_command_must_be_one(sandbox: Sandbox) -> None:
    with pytest.raises(ConfigurationError, match="name of a program"):
        sandbox.run([])


def test_nothing_is_left_behind(limits: SandboxLimits, started: Started) -> None:
    me = psutil.Process()
    Sandbox(limits).close()
    files, threads = me.num_fds(), me.num_threads()
    for _ in range(5):
        with Sandbox(limits) as sandbox:
            sandbox.python("import os; os.fork()")
            sandbox.python("while True: pass", wall_s=0.05)
    assert (me.num_fds(), me.num_threads()) == (files, threads)
    assert started() == []
