from typing import Any

import pytest

from code_feedback_env import CodeAction, CodeObservation
from code_feedback_env.server.rewards import CodeFeedbackReward


@pytest.mark.parametrize(
    ("fields", "reward", "gained", "broken"),
    [
        ({"status": "ok", "gained": 1, "total": 4}, 0.25, 0.25, 0.0),
        ({"status": "timeout", "gained": 0, "total": 4}, 0.0, 0.0, 0.0),
        ({"status": "error", "error": "SyntaxError", "gained": 0, "total": 4}, -0.5, 0.0, 1.0),
        ({"status": "ok"}, 1.0, 1.0, 0.0),  # without tests
        ({"status": "error", "error": "SyntaxError"}, -0.5, 0.0, 1.0),
    ],
)
def test_an_attempt_has_parts(fields: dict[str, Any], reward: float, gained: float, broken: float) -> None:
    rubric = CodeFeedbackReward()
    assert rubric(CodeAction(code="", function_name="f"), CodeObservation(**fields)) == reward
    assert rubric.component_scores() == {"gained": gained, "broken": broken}
    assert rubric.total_weights() == {"gained": 1.0, "broken": -0.5}
