import pytest

from openenv.core.env_server.types import Action
from sql_env.models import SqlObservation
from sql_env.server.rewards import sql_reward


@pytest.mark.parametrize(
    ("correct", "error", "parts"), [(True, None, (1.0, 1.0)), (False, None, (0.0, 1.0)), (False, "no such", (0.0, 0.0))]
)
def test_only_the_right_answer_counts(correct: bool, error: str | None, parts: tuple[float, float]) -> None:
    reward = sql_reward()
    observation = SqlObservation(question="", queries_left=0, correct=correct, error=error)
    assert reward(Action(), observation) == float(correct)
    assert reward.component_scores() == dict(zip(("correct", "runs"), parts, strict=True))
    assert reward.total_weights() == {"correct": 1.0, "runs": 0.0}
