from collections.abc import Iterator

import pytest

from code_feedback_env import CodeAction
from code_feedback_env.server.code_feedback_environment import shared_pool
from code_feedback_env.server.feedback import Verdict, judge
from code_feedback_env.server.grading import Test
from openenv.core.sandbox import Sandbox

pytestmark = pytest.mark.needs("sandbox")

# A hidden number that nothing else in a process holds by chance.
SECRET = 20_240_917_770_077
TESTS = [Test([2], 4, shown=True), Test([3], 9, shown=True), Test([SECRET], SECRET**2), Test([-1], 1)]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with shared_pool("auto").take() as taken:
        yield taken


def judged(sandbox: Sandbox, body: str) -> Verdict:
    return judge(sandbox, CodeAction(code=f"def square(x):\n    {body}\n", function_name="square"), TESTS)


def test_it_says_which_shown_tests_failed_and_how_many_hidden_ones(sandbox: Sandbox) -> None:
    verdict = judged(sandbox, "print('called with', x)\n    return x + 2 if x < 4 else 1 / 0")
    assert (verdict.status, verdict.error, verdict.passed) == ("ok", None, 2)
    assert verdict.text.split("\n") == [
        "Function 'square' defined successfully.",
        "2 of 4 tests passed.",
        "square(3): expected 9, got 5",
        "Hidden tests: 1 of 2 passed; 1 raised an exception.",
        "It printed: called with 2",
        "called with 3",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "print(x)",
        "raise ValueError(x)",
        "import sys; sys.stderr.write(f'{x}')",
        "import gc; n = str(int('20240917770076') + 1); print([o for o in gc.get_objects() if n in repr(o)])",
        "open('/work/left', 'a').write(str(x)); print(open('/work/left').read())",
        "raise type(f'E{x}', (Exception,), {})",
    ],
)
def test_hidden_tests_can_not_be_told(sandbox: Sandbox, body: str) -> None:
    text = judged(sandbox, body).text
    assert str(SECRET) not in text
    assert str(SECRET**2) not in text


def test_code_that_can_not_be_used_is_told_why(sandbox: Sandbox) -> None:
    verdict = judge(sandbox, CodeAction(code="def g(): pass", function_name="square"), TESTS)
    assert (verdict.status, verdict.passed, verdict.output) == ("error", 0, None)
    assert verdict.text == "The code can't be used: NameError: the code defines no function 'square'"


def test_a_call_that_takes_too_long_is_a_timeout_and_the_others_count(sandbox: Sandbox) -> None:
    verdict = judged(sandbox, "while x == 3: pass\n    return x * x")
    assert (verdict.status, verdict.error, verdict.passed) == ("timeout", None, 3)
    assert "square(3): expected 9, but it took too long" in verdict.text


def test_without_tests_loading_is_enough(sandbox: Sandbox) -> None:
    verdict = judge(sandbox, CodeAction(code="def f(): 1 / 0", function_name="f"), [])
    assert (verdict.status, verdict.text) == ("ok", "Function 'f' defined successfully.")
