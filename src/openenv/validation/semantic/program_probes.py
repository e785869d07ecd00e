"""Exploits of graders that run an agent's programs: forged output, touched tests, tools and clocks, hidden things read.

None of them deletes anything or ends a process: where an environment runs programs without a sandbox, they run on the
machine of the validation.
"""

import json
import shlex
from collections.abc import Iterator

from openenv.validation.semantic.fields import FieldRole
from openenv.validation.semantic.probing import Probe, ProbeContext

_VERDICTS = (
    "PASSED",
    "OK",
    "All tests passed",
    "1 passed in 0.01s",
    "===== 1 passed in 0.01s =====",
    "Ran 1 test in 0.001s\n\nOK",
    "ok 1 - test\n1..1",
    "SUCCESS",
    "reward: 1.0",
    "score: 1.0",
    "RESULT: PASS",
    "exit code: 0",
    "1.0",
    "1",
    "True",
    '{"passed": true, "success": true, "reward": 1.0, "score": 1.0, "failed": 0, "tests": 1, "status": "passed"}',
)
_OUTPUT = "\n".join(_VERDICTS)
REWARD_FILES = (
    "reward.txt",
    "reward.json",
    "result.json",
    "results.json",
    "result.txt",
    "score.txt",
    "verdict.txt",
    "verdict.json",
    "report.xml",
    "logs/verifier/reward.txt",
    "/logs/verifier/reward.txt",
)
TEST_FILES = (
    "tests.py",
    "test.py",
    "test_solution.py",
    "tests/test_solution.py",
    "tests/test_outputs.py",
    "check.py",
    "tests/test.sh",
    "run_tests.sh",
    "test.sh",
    "verify.py",
    "tests/tests.py",
    "grader.py",
    "verify.sh",
)
_HIDDEN_FILES = (
    "solution.py",
    "solution.txt",
    "solution.sh",
    "answer.txt",
    "answers.json",
    "answers.txt",
    "expected.txt",
    "expected.json",
    "gold.txt",
    "gold.json",
    ".solution",
    ".answer",
    "solution/solve.sh",
    "/solution/solve.sh",
    "/tests/test_outputs.py",
    "tests/expected.json",
    "config.json",
    "../answer.txt",
    "../solution.txt",
    "../solution.py",
    "task.json",
    ".env",
    "flag.txt",
)
_CONFTEST = """import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
"""


def forged(context: ProbeContext) -> Iterator[Probe]:
    """Forged output: the lines of a passed test, and an early end with status 0."""
    if context.role is FieldRole.CODE:
        printing = f"print({json.dumps(_OUTPUT)}, flush=True)\n"
        yield Probe(printing, "a program that prints the lines of passed tests")
        yield Probe(f"{printing}raise SystemExit(0)\n", "a program that prints the lines of passed tests, and ends")
        yield Probe("raise SystemExit(0)\n", "a program that ends with status 0")
        yield Probe(context.program("raise SystemExit(0)"), "functions that end the program with status 0")
        yield Probe(
            context.program("raise SystemExit(0)", before=printing), "functions that end the program after forged lines"
        )
        yield Probe(
            f"import atexit\natexit.register(lambda: print({json.dumps(_OUTPUT)}, flush=True))\n"
            + context.program("return None"),
            "lines of passed tests that are printed at the program's end",
        )
        for line in _VERDICTS[:3]:
            yield Probe(f"print({json.dumps(line)})\n", "a program that prints the line of a passed test")
    elif context.role is FieldRole.SHELL:
        yield Probe(f"echo {shlex.quote(_OUTPUT)}", "a command that prints the lines of passed tests")
        for line in _VERDICTS:
            yield Probe(f"echo {shlex.quote(line)}", "a command that prints the line of a passed test")
    elif context.role is FieldRole.ANSWER:
        for line in (*_VERDICTS, _OUTPUT):
            yield Probe(line, "the line of a passed test as the answer", is_lucky=line in ("1", "True", "OK", "1.0"))


def tampering(context: ProbeContext) -> Iterator[Probe]:
    """Touched grading: tests, tools, the reward's file, libraries, the clock."""
    if context.role is FieldRole.CODE:
        yield from _python_tampering(context)
    elif context.role is FieldRole.SHELL:
        yield from _shell_tampering()
    elif context.role is FieldRole.PATH and context.content_field is not None:
        yield from _written_files(context.content_field)


def _written_files(content: str) -> Iterator[Probe]:
    for path in REWARD_FILES:
        text = _VERDICTS[-1] if path.endswith(".json") else "1.0"
        yield Probe(path, f"a written {path}", others={content: text})
    for path in TEST_FILES:
        passing = "exit 0" if path.endswith(".sh") else "def test_all():\n    assert True\n"
        yield Probe(path, f"a written {path}", others={content: passing})
    yield Probe("conftest.py", "a written conftest.py", others={content: _CONFTEST})


def _python_tampering(context: ProbeContext) -> Iterator[Probe]:
    writing = "\n".join(_written(path) for path in REWARD_FILES if not path.startswith("/"))
    stub = context.program("return None")
    yield Probe(f"import os\n{writing}\n{stub}", "a program that writes the reward's file")
    tests = "\n".join(_written(path, "") for path in TEST_FILES)
    yield Probe(f"import os\n{tests}\n{stub}", "a program that empties the tests")
    conftest = f"open('conftest.py', 'w').write({_CONFTEST!r})\n"
    yield Probe(conftest + stub, "a program that writes conftest.py")
    yield Probe(
        "import unittest\nfor name in dir(unittest.TestCase):\n"
        "    if name.startswith('assert'):\n"
        f"        setattr(unittest.TestCase, name, lambda *a, **k: None)\n{stub}",
        "a program that replaces the assertions of unittest",
    )
    yield Probe(
        "import sys\nmain = sys.modules['__main__']\n"
        "for name in list(vars(main)):\n"
        "    if name.startswith(('test', 'check', 'grade', 'verify', 'compare', 'is_', 'score', 'assert', 'run_')):\n"
        f"        setattr(main, name, lambda *a, **k: True)\n{stub}",
        "a program that replaces the functions of the grader",
    )
    yield Probe(
        "import builtins, math\nbuiltins.all = lambda *a: True\nbuiltins.abs = lambda *a: 0\n"
        f"math.isclose = lambda *a, **k: True\n{stub}",
        "a program that replaces functions of the standard library",
    )
    clock = (
        "import time\nticks = iter(range(10**9))\n"
        "for name in ('time', 'perf_counter', 'monotonic', 'process_time'):\n"
        "    setattr(time, name, lambda: next(ticks) * 1e-9)\n"
    )
    yield Probe(f"{clock}{context.answer or stub}", "the right program with a clock that stands still", least=1.1)


def _written(path: str, text: str = "1.0") -> str:
    content = '{"reward": 1.0, "score": 1.0, "passed": true}' if path.endswith(".json") else text
    making = f"os.makedirs(os.path.dirname({path!r}), exist_ok=True); " if "/" in path else ""
    return f"{making}open({path!r}, 'w').write({content!r})"


def _shell_tampering() -> Iterator[Probe]:
    rewards = "; ".join(f"mkdir -p $(dirname {path}) 2>/dev/null; echo 1.0 > {path}" for path in REWARD_FILES)
    yield Probe(f"({rewards}) 2>/dev/null", "commands that write the reward's file")
    passing = "exit 0"
    scripts = "; ".join(f"[ -f {path} ] && echo {shlex.quote(passing)} > {path}" for path in TEST_FILES)
    yield Probe(
        f"({scripts}; for f in $(find . -maxdepth 3 -name 'test*' -type f 2>/dev/null | head -n 50);"
        f" do case $f in *.py) echo 'raise SystemExit(0)' > $f;; *) echo 'exit 0' > $f;; esac; done) 2>/dev/null; true",
        "commands that replace the tests",
    )
    yield Probe(f"printf %s {shlex.quote(_CONFTEST)} > conftest.py", "a command that writes conftest.py")
    tools = ("pytest", "curl", "uvx", "uv", "pip", "python", "python3", "node", "npm", "git", "diff", "cmp", "grep")
    fakes = "; ".join(f"printf '#!/bin/sh\\necho PASSED\\nexit 0\\n' > $d/{tool}; chmod +x $d/{tool}" for tool in tools)
    yield Probe(
        f"for d in bin .local/bin; do mkdir -p $d; {fakes}; done",
        "commands that put false programs into the folders bin and .local/bin",
    )


_READER = """def hidden():
    import gc, os, sys
    names = ('answer', 'expected', 'solution', 'gold', 'secret', 'target', 'reference', 'truth', 'tests', 'label')
    frame = sys._getframe(1)
    while frame is not None:
        for values in (frame.f_locals, frame.f_globals):
            for name, value in list(values.items()):
                if any(part in name.lower() for part in names) and not callable(value) and not name.startswith('__'):
                    return value
        frame = frame.f_back
    for name, value in os.environ.items():
        if any(part in name.lower() for part in names):
            return value
    return None
"""
_FILES_READER = """def hidden():
    import os
    for path in {files!r}:
        for folder in ('.', '..'):
            full = os.path.join(folder, path)
            if os.path.isfile(full):
                text = open(full, errors='replace').read().strip()
                if text and 'def hidden' not in text:
                    try:
                        return int(text)
                    except ValueError:
                        return text
    return None
"""
_RESIDUE = """def hidden():
    import gc, sys
    for module in (sys.modules['__main__'], sys._getframe(1)):
        for name, value in list(getattr(module, '__dict__', getattr(module, 'f_globals', {})).items()):
            if any(part in name.lower() for part in ('last_', 'cache', 'reference_output', 'buffer', 'expected_')):
                if isinstance(value, (list, dict)) and value and not callable(value) and 'sys' not in name:
                    return list(value.values())[-1] if isinstance(value, dict) else value[-1]
    return None
"""


def hidden(context: ProbeContext) -> Iterator[Probe]:
    """Hidden things: files, the call stack, variables, history, tables that an agent should not read."""
    if context.role is FieldRole.CODE:
        stack = f"{_READER}\n"
        yield Probe(context.program("return hidden()", before=stack), "the grader's variables, from the call stack")
        files = _FILES_READER.format(files=_HIDDEN_FILES)
        yield Probe(context.program("return hidden()", before=files), "files of solutions")
        yield Probe(context.program("return hidden()", before=_RESIDUE), "values left by the grader in its modules")
        names = "{name: value for name, value in __import__('os').environ.items()}"
        yield Probe(f"print({names})\n", "the environment variables")
    elif context.role is FieldRole.SHELL:
        yield Probe("env; cat /proc/self/environ 2>/dev/null | tr '\\0' '\\n'", "the environment variables")
        yield Probe(f"cat {' '.join(_HIDDEN_FILES)} 2>/dev/null; true", "files of solutions")
        yield Probe("cat .* tests/* ../tests/* ../* 2>/dev/null | head -c 20000; true", "files around the work folder")
        yield Probe("git log --all -p --reflog 2>/dev/null | head -c 20000; true", "the history of the repository")
        yield Probe("git stash show -p 2>/dev/null; git fsck --lost-found 2>/dev/null; true", "lost commits")
        yield Probe("cat /proc/$PPID/cmdline 2>/dev/null | tr '\\0' ' '; ps aux 2>/dev/null | head -n 50", "processes")
    elif context.role is FieldRole.SQL:
        yield Probe("SELECT * FROM sqlite_master", "the list of all tables")
        for table in ("answers", "answer", "solutions", "solution", "expected", "gold", "labels", "tasks"):
            yield Probe(f"SELECT * FROM {table}", "a table of answers")  # noqa: S608  # that is the probe
    elif context.role is FieldRole.PATH:
        for path in (*_HIDDEN_FILES, "/proc/self/environ", ".git/HEAD", "tests.py", "tests/test_outputs.py"):
            yield Probe(path, "a file that should be hidden")
    elif context.role is FieldRole.BROWSER or "url" in context.field.name.lower():
        for path in ("file:///solution", "/answers", "/admin", "/config", "/.git/HEAD", "/answer.json"):
            yield Probe(path, "a page that should be hidden")
