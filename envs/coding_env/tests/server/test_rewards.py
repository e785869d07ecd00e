import pytest

from coding_env import CodeAction, CodeObservation
from coding_env.server.rewards import CodingReward, dangerous_pattern


def reward(code: str, *, uncompiled: bool = False) -> tuple[float, list[float]]:
    """Return the reward of a piece of code, and its parts: dangerous, short, uncompiled."""
    rubric = CodingReward()
    metadata = {"uncompiled": True} if uncompiled else {}
    total = rubric(CodeAction(code=code), CodeObservation(metadata=metadata))
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
    assert reward("(", uncompiled=True) == (-0.1, [0.0, 1.0, 1.0])
    assert reward("(" * 200, uncompiled=True) == (-0.2, [0.0, 0.0, 1.0])


def test_the_weights_are_what_each_part_adds() -> None:
    assert CodingReward().total_weights() == {"dangerous": -1.0, "short": 0.1, "uncompiled": -0.2}
