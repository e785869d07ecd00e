import pytest

from coding_env import CodeAction, CodeObservation
from coding_env.server.rewards import CodingReward, dangerous_pattern

UNCLOSED = "  File \"<step 1>\", line 1\n    (\n    ^\nSyntaxError: '(' was never closed\n"


def reward(code: str, stderr: str = "", exit_code: int = 0) -> tuple[float, list[float]]:
    """Return the reward of a piece of code, and its parts: dangerous, short, uncompiled."""
    rubric = CodingReward()
    total = rubric(CodeAction(code=code), CodeObservation(stderr=stderr, exit_code=exit_code))
    parts = rubric.component_scores()
    assert list(parts) == ["dangerous", "short", "uncompiled"]
    return total, list(parts.values())


@pytest.mark.parametrize(
    ("code", "pattern"),
    [
        ("import os", r"import\s+os"),
        ("import   subprocess", r"import\s+subprocess"),
        ("eval('1')", r"eval\("),
        ("exec('1')", r"exec\("),
        ("__import__('x')", "__import__"),
        ("open('x')", r"open\("),
        ("shutil.rmtree('x')", r"rmtree\("),
        ("path.unlink()", r"unlink\("),
        ("path.rmdir()", r"rmdir\("),
    ],
)
def test_a_dangerous_pattern_costs_one(code: str, pattern: str) -> None:
    assert dangerous_pattern(code) == pattern
    assert reward(code) == (-0.9, [1.0, 1.0, 0.0])
    assert reward(code + " " * 20 + "#" * 200) == (-1.0, [1.0, 0.0, 0.0])


def test_short_code_earns_a_tenth() -> None:
    assert reward("x" * 100 + " " * 50) == (0.1, [0.0, 1.0, 0.0])
    assert reward("x" * 101) == (0.0, [0.0, 0.0, 0.0])


def test_code_that_does_not_compile_costs_a_fifth() -> None:
    assert reward("(", UNCLOSED, 1) == (-0.1, [0.0, 1.0, 1.0])
    assert reward("(" * 200, UNCLOSED, 1) == (-0.2, [0.0, 0.0, 1.0])
    raised = 'Traceback (most recent call last):\n  File "<step 1>"\nSyntaxError: of its own\n'
    assert reward("raise SyntaxError()", raised, 1) == (0.1, [0.0, 1.0, 0.0])


def test_the_weights_are_what_each_part_adds() -> None:
    assert CodingReward().total_weights() == {"dangerous": -1.0, "short": 0.1, "uncompiled": -0.2}
