import copy
import json
from pathlib import Path

import pytest

from code_feedback_env import CodeAction, CodeObservation
from code_feedback_env.player import write_solution
from code_feedback_env.server.code_feedback_environment import CodeFeedbackEnvironment
from openenv.core.exceptions import (
    ConfigurationError,
    IllegalActionError,
    InvalidRequestError,
    ResetNeededError,
    TaskNotFoundError,
)

pytestmark = pytest.mark.needs("sandbox")


def attempt(environment: CodeFeedbackEnvironment, body: str, name: str | None = None) -> CodeObservation:
    name = name or environment.state.function_name or "f"
    return environment.step(CodeAction(code=f"def {name}(x, *_):\n    {body}\n", function_name=name))


def test_rewards_add_up_to_the_share_of_the_best_attempt(tmp_path: Path) -> None:
    tests = [{"arguments": [n], "expected": n * n} for n in range(4)]
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([{"prompt": "Square.", "function_name": "f", "tests": tests}]))
    environment = CodeFeedbackEnvironment(file)
    environment.reset()
    bodies = ["return 0", "return x", "(", "return 0", "return x * x"]
    seen = [attempt(environment, body) for body in bodies]
    assert [one.reward for one in seen] == [0.25, 0.25, -0.5, 0.0, 0.5]
    assert [one.passed for one in seen] == [1, 2, 0, 1, 4]
    assert [one.done for one in seen] == [False] * 4 + [True]
    assert [one.attempts_left for one in seen] == [4, 3, 2, 1, 0]
    with pytest.raises(ResetNeededError):
        attempt(environment, "return 0")


def test_the_last_attempt_ends_the_episode(environment: CodeFeedbackEnvironment) -> None:
    environment.reset(seed=1, max_attempts=1)
    last = attempt(environment, "return object()")
    assert (last.done, last.reward, last.attempts_left) == (True, 0.0, 0)


def test_a_right_answer_ends_it_at_once(environment: CodeFeedbackEnvironment) -> None:
    last = environment.step(write_solution(environment.reset(seed=1)))
    assert (last.done, last.reward, last.status, last.passed, last.total) == (True, 1.0, "ok", 10, 10)
    assert environment.state.step_count == 1
    assert environment.render() == last.text


def test_without_tests_any_function_will_do_and_it_never_ends(environment: CodeFeedbackEnvironment) -> None:
    first = environment.reset(tests=False)
    assert (first.prompt, first.function_name, first.total, first.attempts_left) == ("", None, None, None)
    for _ in range(2):
        seen = attempt(environment, "return 1", "anything")
        assert (seen.status, seen.reward, seen.done, seen.passed) == ("ok", 1.0, False, None)
    assert attempt(environment, "(", "anything").reward == -0.5
    with pytest.raises(IllegalActionError, match="a name that a function in Python can have, got 'no name'"):
        environment.step(CodeAction(code="", function_name="no name"))


def test_another_functions_name_is_refused_and_not_counted(environment: CodeFeedbackEnvironment) -> None:
    asked = environment.reset(seed=4).function_name
    before = environment.state
    with pytest.raises(IllegalActionError, match=f"Expected the function_name '{asked}', got 'other'"):
        attempt(environment, "return 1", "other")
    assert environment.state == before


def test_what_reset_refuses_leaves_the_episode(environment: CodeFeedbackEnvironment) -> None:
    environment.reset(seed=2)
    before = environment.state
    with pytest.raises(InvalidRequestError):
        environment.reset(seed="x")  # type: ignore[arg-type]
    for refused in ({"split": "none"}, {"index": -1}):
        with pytest.raises(TaskNotFoundError):
            environment.reset(**refused)
    assert environment.state == before
    attempt(environment, "return 0")


def test_the_same_code_gets_the_same_answer(environment: CodeFeedbackEnvironment) -> None:
    answers = []
    for _ in range(2):
        environment.reset(seed=9)
        seen = attempt(environment, "print({'b', 'a', x and 'c'}); return len('abc') + hash('a') % 7")
        answers.append(seen.model_dump(exclude={"execution_time_ms"}))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("way", ["copy", "snapshot"])
def test_a_copy_goes_on_alike_and_apart(environment: CodeFeedbackEnvironment, way: str) -> None:
    first = environment.reset(seed=6, difficulty="easy")
    attempt(environment, "return object()")
    if way == "copy":
        other = copy.deepcopy(environment)
    else:
        other = CodeFeedbackEnvironment()
        other.restore(json.loads(json.dumps(environment.snapshot())))
    assert (other.state, other.render()) == (environment.state, environment.render())
    assert other.step(write_solution(first)).reward == 1.0
    assert environment.state.attempts_left == 4
    assert environment.step(write_solution(first)).reward == 1.0


def test_neither_state_nor_tasks_tell_the_tests(environment: CodeFeedbackEnvironment) -> None:
    environment.reset(seed=6)
    told = repr(environment.state) + repr(environment.get_task("train", 6)) + repr(environment.snapshot())
    assert "expected" not in told
    assert "return " not in told
    assert environment.num_tasks("test") == 10_000
    assert environment.list_splits() == ["train", "validation", "test"]


def test_an_unknown_kind_of_sandbox_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="expected one of 'auto', 'bubblewrap', 'none'"):
        CodeFeedbackEnvironment(sandbox="jail")  # type: ignore[arg-type]
