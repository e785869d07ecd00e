import pytest

from code_feedback_env import CodeAction, CodeFeedbackEnv, CodeFeedbackState, CodeObservation

pytestmark = pytest.mark.needs("sandbox")


def test_the_tutorials_example_gets_the_tutorials_rewards(code_feedback_url: str) -> None:
    with CodeFeedbackEnv(base_url=code_feedback_url).sync() as env:
        env.reset(tests=False)
        valid = env.step(CodeAction(code="def add(a, b): return a + b", function_name="add"))
        assert (valid.observation.status, valid.reward, valid.done) == ("ok", 1.0, False)
        assert valid.observation.output == "Function 'add' defined successfully."
        invalid = env.step(CodeAction(code="def broken(", function_name="broken"))
        assert (invalid.observation.status, invalid.reward, invalid.done) == ("error", -0.5, False)
        assert invalid.observation.error == "SyntaxError: '(' was never closed (line 1)"
        assert invalid.observation.execution_time_ms is not None


def test_an_episode_is_forked(code_feedback_url: str) -> None:
    with CodeFeedbackEnv(base_url=code_feedback_url).sync() as env:
        name = env.reset(seed=3).observation.function_name or ""
        env.step(CodeAction(code="(", function_name=name))
        for fork in env.fork(2):
            with fork:
                assert fork.step(CodeAction(code="(", function_name=name)).observation.attempts_left == 3


def test_results_and_state_have_their_types(code_feedback_url: str) -> None:
    with CodeFeedbackEnv(base_url=code_feedback_url).sync() as env:
        first = env.reset(seed=3).observation
        assert isinstance(first, CodeObservation)
        assert first.function_name is not None
        env.step(CodeAction(code=f"def {first.function_name}(*_): pass", function_name=first.function_name))
        state = env.state()
    assert isinstance(state, CodeFeedbackState)
    assert (state.split, state.index, state.step_count, state.attempts_left) == ("train", 3, 1, 4)
