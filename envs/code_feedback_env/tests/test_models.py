import pytest
from pydantic import ValidationError

from code_feedback_env import CodeAction, CodeObservation


def test_actions_have_a_name_and_are_not_endless() -> None:
    assert CodeAction(code="", function_name="f").code == ""
    for wrong in ({"function_name": ""}, {"code": "x" * 100_001}, {"function_name": "f" * 101}):
        with pytest.raises(ValidationError):
            CodeAction.model_validate({"code": "", "function_name": "f"} | wrong)


def test_an_observation_takes_the_tutorials_fields_alone() -> None:
    observation = CodeObservation(status="error", error="no", execution_time_ms=1.5)
    assert (observation.output, observation.passed, observation.done) == (None, None, False)
    with pytest.raises(ValidationError):
        CodeObservation.model_validate({"status": "fine"})
