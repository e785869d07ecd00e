"""What is forked runs as what is started: tests of commands rest on it."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked import ForkedProgram, run_forked

VARIABLES = {"PATH": os.environ["PATH"], "ONLY": "here"}


def program(folder: Path, text: str, name: str = "program.py") -> list[str]:
    (folder / name).write_text(text)
    return [name]


def finished(folder: Path, text: str, *arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    settings = {"cwd": folder, "env": VARIABLES, "timeout": 60, **settings}
    return run_forked([*program(folder, text), *arguments], **settings)


SHOW = """
import json, os, sys
import beside
json.dump([__name__, sys.argv, os.getcwd(), dict(os.environ), sys.stdin.read(), beside.NUMBER], sys.stdout)
print("told", file=sys.stderr)
"""


def test_arguments_folder_variables_and_streams_are_its_own(tmp_path: Path) -> None:
    program(tmp_path, "NUMBER = 3", "beside.py")
    ended = finished(tmp_path, SHOW, "-x", "y z", typed="typed\n")
    name, arguments, folder, variables, typed, number = json.loads(ended.stdout)
    assert (name, arguments) == ("__main__", ["program.py", "-x", "y z"])
    assert Path(folder).samefile(tmp_path)
    assert variables.items() >= VARIABLES.items()
    assert variables.keys() - VARIABLES.keys() <= {"LC_CTYPE"}
    assert (typed, number) == ("typed\n", 3)
    assert (ended.returncode, ended.stderr) == (0, "told\n")


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no luck')", 1, "no luck\n"),
        ("raise KeyError('a')", 1, "KeyError: 'a'\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt\n"),
        ("import atexit, sys; atexit.register(print, 'last', file=sys.stderr)", 0, "last\n"),
    ],
)
def test_it_ends_as_one_that_was_started(tmp_path: Path, text: str, status: int, told: str) -> None:
    ended = finished(tmp_path, text)
    assert ended.returncode == status
    assert ended.stderr.endswith(told)
    assert bool(ended.stderr) is bool(told)


def test_what_one_changes_another_does_not_see(tmp_path: Path) -> None:
    assert finished(tmp_path, "import os, openenv; openenv.mark = 1; os.environ['MARK'] = '1'").returncode == 0
    seen = finished(tmp_path, "import os, openenv; print(hasattr(openenv, 'mark'), 'MARK' in os.environ)")
    assert seen.stdout == "False False\n"


def test_a_module_is_run_by_its_name_with_the_folder_before_all_others(tmp_path: Path) -> None:
    program(tmp_path, "import sys; print(__name__, sys.argv[1:], sys.path[0])", "mine.py")
    ended = run_forked(["-m", "mine", "a"], cwd=tmp_path, env=VARIABLES, timeout=60)
    assert ended.stdout == f"__main__ ['a'] {tmp_path}\n"


def test_outputs_may_be_one(tmp_path: Path) -> None:
    text = "import sys; print('a', flush=True); print('b', file=sys.stderr); print('c')"
    assert finished(tmp_path, text, merged=True).stdout == "a\nb\nc\n"


def test_one_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        finished(tmp_path, "import os; os.kill(os.getpid(), 19)", timeout=0.5)


def test_it_runs_until_it_is_signalled(tmp_path: Path) -> None:
    words = program(tmp_path, "import os, signal; print(os.getpid() == os.getpgrp(), flush=True); signal.pause()")
    piped: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with ForkedProgram(words, cwd=tmp_path, env=VARIABLES, start_new_session=True, **piped) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
        assert process.stdout.read() == ""
        process.kill()  # changes nothing
    assert process.returncode == -signal.SIGTERM


def test_its_input_is_open_until_it_is_closed(tmp_path: Path) -> None:
    words = program(tmp_path, "import sys; print(sys.stdin.readline(), flush=True); sys.stdin.read()")
    piped: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ForkedProgram(words, cwd=tmp_path, env=VARIABLES, **piped) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print("a line", file=process.stdin, flush=True)
        assert process.stdout.readline() == "a line\n"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 0


def test_errors_go_where_the_output_goes(tmp_path: Path) -> None:
    words = program(tmp_path, "import sys; print('a', flush=True); print('b', file=sys.stderr)")
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with ForkedProgram(words, cwd=tmp_path, env=VARIABLES, **streams) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "a\nb\n"


def test_what_has_ended_may_be_killed(tmp_path: Path) -> None:
    with ForkedProgram(program(tmp_path, "print()"), cwd=tmp_path, env=VARIABLES, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        while process.poll() is None:
            process.kill()
    assert process.returncode in (0, -signal.SIGKILL)
