from collections.abc import Iterator

import pytest

from coding_env import CodeAction, CodeObservation
from coding_env.server.python_codeact_env import PythonCodeActEnv
from openenv.core.exceptions import ResetNeededError

pytestmark = pytest.mark.needs("sandbox")


@pytest.fixture
def environment() -> Iterator[PythonCodeActEnv]:
    environment = PythonCodeActEnv()
    environment.reset(seed=1)
    yield environment
    environment.close()


def run(environment: PythonCodeActEnv, code: str) -> CodeObservation:
    return environment.step(CodeAction(code=code))


def test_the_value_at_the_end_is_shown(environment: PythonCodeActEnv) -> None:
    for code, shown in {
        "print('a')\n{'k': [1, None]}": 'a\n{"k": [1, null]}\n',
        "object": "<class 'object'>\n",
        "None": "",
        "x = 5": "",
        "x": "5\n",
        "'text'": '"text"\n',
        "# nothing": "",
    }.items():
        assert run(environment, code).stdout == shown


def test_a_reset_leaves_nothing_of_the_last_episode(environment: PythonCodeActEnv) -> None:
    run(environment, "import builtins\nbuiltins.left = 1\nleft_too = 2\nopen('left', 'w').close()")
    environment.reset(seed=1)
    shown = run(
        environment, "import builtins, os\nprint(hasattr(builtins, 'left'), 'left_too' in globals(), os.listdir('.'))"
    )
    assert shown.stdout == "False False []\n"


def test_a_seed_gives_the_same_chances(environment: PythonCodeActEnv) -> None:
    drawn = []
    for seed in (3, 3, 4, None, None):
        environment.reset(seed=seed)
        drawn.append(run(environment, "import random\nrandom.random()").stdout)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4


def test_code_that_has_replaced_the_compiler_does_not_hide_what_does_not_compile(
    environment: PythonCodeActEnv,
) -> None:
    run(environment, "import builtins; real = compile; builtins.compile = lambda *a, **k: real('pass', *a[1:], **k)")
    observation = run(environment, "def broken(:")
    assert observation.metadata["uncompiled"]
    assert observation.reward == -0.1
    assert "uncompiled" not in run(environment, "1").metadata


def test_the_metadata_tells_what_happened(environment: PythonCodeActEnv) -> None:
    assert run(environment, "print(1)").metadata == {"last_code": "print(1)"}
    assert run(environment, "eval('1')").metadata == {"last_code": "eval('1')", "safety_violation": r"eval\("}
    observation = run(environment, "import os as o\no._exit(4)")
    assert observation.metadata["interpreter_lost"]
    assert observation.exit_code == 4
    assert observation.stderr.startswith("[sandbox] The interpreter has ended itself.")


def test_steps_need_an_episode(environment: PythonCodeActEnv) -> None:
    environment.reset(max_steps=1)
    assert run(environment, "1").done
    with pytest.raises(ResetNeededError):
        run(environment, "1")
    environment.close()
    with pytest.raises(ResetNeededError):
        run(environment, "1")


def test_the_picture_is_the_last_code_and_what_it_gave(environment: PythonCodeActEnv) -> None:
    assert environment.render() == ""
    run(environment, "for n in range(2):\n    print(n)")
    assert environment.render() == ">>> for n in range(2):\n...     print(n)\n0\n1"
