import pytest

from coding_env import CodeObservation
from coding_env.server.rewards import coding_transform


def reward(code: str | None, stderr: str = "", exit_code: int = 0) -> tuple[float, object]:
    metadata = {} if code is None else {"last_code": code}
    observation = coding_transform()(CodeObservation(stderr=stderr, exit_code=exit_code, metadata=metadata))
    assert isinstance(observation.reward, float)
    return observation.reward, observation.metadata.get("safety_violation")


def test_a_reset_has_none() -> None:
    assert reward(None) == (0.0, None)


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
    assert reward(code) == (-0.9, pattern)
    assert reward(code + " " * 20 + "#" * 200) == (-1.0, pattern)


def test_short_code_earns_a_tenth() -> None:
    assert reward("x" * 100 + " " * 50) == (0.1, None)
    assert reward("x" * 101) == (0.0, None)


def test_code_that_does_not_compile_costs_a_fifth() -> None:
    stderr = "  File \"<step 1>\", line 1\n    (\n    ^\nSyntaxError: '(' was never closed\n"
    assert reward("(", stderr, 1) == (-0.1, None)
    assert reward("(" * 200, stderr, 1) == (-0.2, None)
    raised = 'Traceback (most recent call last):\n  File "<step 1>"\nSyntaxError: of its own\n'
    assert reward("raise SyntaxError()", raised, 1) == (0.1, None)
