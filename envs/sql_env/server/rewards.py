"""The reward of an answer, and the part that is seen beside it."""

from openenv.core.env_server.types import Action
from openenv.core.rubrics import Rubric, WeightedSum

from ..models import SqlObservation


class Correct(Rubric):
    """1.0 for the right answer, 0.0 for any other."""

    def forward(self, action: Action, observation: SqlObservation) -> float:
        """Read it from the observation."""
        return float(bool(observation.correct))


class Runs(Rubric):
    """0.0 for a query as the answer that fails or gives too many rows, 1.0 for any other answer."""

    def forward(self, action: Action, observation: SqlObservation) -> float:
        """Look for the query's error."""
        return float(observation.error is None)


def sql_reward() -> WeightedSum:
    """Return the environment's reward: ``correct`` alone; ``runs`` is seen, and does not count."""
    return WeightedSum({"correct": Correct(), "runs": Runs()}, {"correct": 1.0, "runs": 0.0})
