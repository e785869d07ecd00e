from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_feedback_env.server.code_feedback_environment import shared_pool
from code_feedback_env.server.grading import Run, Test, as_json_values, is_same, passes, run_code
from openenv.core.sandbox import Sandbox

pytestmark = pytest.mark.needs("sandbox")

TESTS = [Test([1], 2), Test([5], 6), Test([-1], 0)]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with shared_pool("auto").take() as taken:
        yield taken


def run(sandbox: Sandbox, code: str, tests: list[Test] | None = None) -> Run:
    return run_code(sandbox, code, "f", TESTS if tests is None else tests)


def right(run: Run) -> list[bool]:
    if run.loaded.kind != "value":
        return [False] * len(TESTS)
    return [passes(outcome, test) for outcome, test in zip(run.outcomes, TESTS, strict=True)]


def kinds(run: Run) -> list[str]:
    return [outcome.kind for outcome in run.outcomes]


def test_good_code_passes(sandbox: Sandbox) -> None:
    done = run(sandbox, "import math\nprint('hello')\ndef f(x):\n    return x + 1")
    assert right(done) == [True, True, True]
    assert done.printed == "hello\n"


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("def f(:", "raised", "SyntaxError: invalid syntax (line 1)"),
        ("x = 1\n1 / 0", "raised", "ZeroDivisionError: division by zero (line 2)"),
        ("g = 1", "raised", "NameError: the code defines no function 'f'"),
        ("f = 1", "raised", "NameError: the code defines no function 'f'"),
        ("import sys; sys.exit(0)", "raised", "SystemExit: 0 (line 1)"),
        ("import os; os._exit(0)", "ended", ""),
        ("import os; os.kill(os.getppid(), 9)", "ended", ""),
        ("def f(x): return x + 1\nimport os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended", ""),
    ],
)
def test_code_that_can_not_be_loaded(sandbox: Sandbox, code: str, kind: str, message: str) -> None:
    done = run(sandbox, code)
    assert (done.loaded.kind, done.loaded.message, done.outcomes) == (kind, message, [])


# Each of them gives wrong results, and would pass if the code could reach what compares, or what is told.
CHEATS = {
    "equal to all": "class A:\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef f(x): return A()",
    "a number that is equal to all": "class A(int):\n    __eq__ = lambda s, o: True\n    __hash__ = None\ndef f(x): "
    "return A()",
    "other builtins": "import builtins\nbuiltins.all = builtins.isinstance = lambda *_: True\nbuiltins.len = lambda "
    "_: 1\n"
    "def f(x): return None",
    "printed results": "import json\ndef f(x):\n    for value in (2, 6, 0):\n        print(json.dumps({'value': "
    "value}), flush=True)",
    "results in the parent's output": "import os\ndef f(x):\n    with open(f'/proc/{os.getppid()}/fd/1', 'w') as out:\n"
    "        out.write('{\"value\": true}\\n' * 9)",
    "another json": "import json\njson.dumps = lambda value: '{\"value\": true}'\ndef f(x): return None",
    "what the runner knows": "import sys, gc\ndef f(x):\n    known = [o for o in gc.get_objects() if isinstance(o, "
    "dict)]\n"
    "    found = [o['expected'] for o in known if 'expected' in o]\n    return found[0]",
    "an exit that says all is well": "import sys\ndef f(x): sys.exit(0)",
    "an exit without a word": "import os\ndef f(x): os._exit(0)",
    "true for one": "def f(x): return True",
    "a text for a number": "def f(x): return str(x + 1)",
    "not a number": "def f(x): return float('nan')",
    "too much": "def f(x): return 'x' * 10**6",
    "itself": "def f(x):\n    found = []\n    found.append(found)\n    return found",
    "a number too long to write": "def f(x): return 10**5000",
    "the memory": "def f(x): return len('x' * 10**9)",
    "floods": "import sys\ndef f(x):\n    for _ in range(300): sys.stdout.write('x' * 10**5)\n    return None",
    "processes": "import os\ndef f(x):\n    for _ in range(100): os.fork()\n    return None",
}


@pytest.mark.parametrize("code", CHEATS.values(), ids=CHEATS)
def test_cheats_pass_no_test(sandbox: Sandbox, code: str) -> None:
    assert right(run(sandbox, code)) == [False, False, False]
    # And the sandbox, in which hidden tests come next, still works.
    assert run(sandbox, "def f(x): return x + 1").loaded.kind == "value"


def test_one_bad_test_does_not_cost_the_others(sandbox: Sandbox) -> None:
    for ending, kind in {"os._exit(1)": "ended", "1 / 0": "raised", "os.close(3); os.abort()": "ended"}.items():
        done = run(sandbox, f"import os\ndef f(x):\n    if x == 5: {ending}\n    return x + 1")
        assert (right(done), kinds(done)) == ([True, False, True], ["value", kind, "value"])


def test_an_endless_loop_ends_and_the_rest_is_tried_only_so_often(sandbox: Sandbox) -> None:
    done = run(sandbox, "def f(x):\n    while x != 1: pass\n    return x + 1", [*TESTS, Test([1], 2)])
    assert kinds(done) == ["value", "timeout", "timeout", "skipped"]
    assert done.duration_s < 30


def test_the_expected_values_do_not_come_into_the_sandbox(sandbox: Sandbox) -> None:
    secret = "a-value-to-look-for"
    looking = (
        "import os\nparent = os.getppid()\nwith open(f'/proc/{parent}/cmdline', 'rb') as file: seen = file.read()\n"
        "import gc\nseen = seen.decode() + repr(gc.get_objects()) + repr(globals())\n"
        "def f(x): return 'rof-kool-ot-eulav-a'[::-1] in seen, 'tnemugra-na'[::-1] in seen\n"
    )
    done = run(sandbox, looking, [Test(["an-argument"], secret)])
    # The argument is there, so the search would find the other, too.
    assert done.outcomes[0].value == [False, True]


def test_values_come_as_they_are(sandbox: Sandbox) -> None:
    values = [None, True, 0, -7, 10**30, 1.5, "", "é\u2028\0", [1, [2]], {"a": {"b": [False]}}]
    done = run(sandbox, "def f(x): return x", [Test([value], value) for value in values])
    assert [outcome.value for outcome in done.outcomes] == values
    tuples = run(sandbox, "def f(x): return (1, (2,)), {1: 2}", [Test([0], 0)])
    assert tuples.outcomes[0].kind == "raised"
    assert "returned a dict" in tuples.outcomes[0].message


@given(json_values)
def test_a_value_is_the_same_as_itself_in_json_and_not_as_itself_in_a_list(value: Any) -> None:
    assert is_same(as_json_values(value), value)
    assert not is_same([value], value)
    assert not is_same(value, [value])
    assert not is_same([value], [value, value])


def test_what_is_not_the_same() -> None:
    assert is_same(2.0, 2)
    assert is_same(0.1 + 0.2, 0.3)
    different: list[tuple[Any, Any]] = [
        *((1, True), (False, 0), ("1", 1), ([], {}), ([1], [1, 1]), ({"a": 1}, {"a": 1, "b": 2}), (None, 0)),
        *((float("nan"), 0.0), (10**400, 1.0), ("a", ["a"]), (0.3001, 0.3)),
    ]
    assert [pair for pair in different if is_same(*pair)] == []
