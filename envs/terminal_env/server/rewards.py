"""The reward of a job, and its parts."""

from openenv.core.env_server.types import Action
from openenv.core.rubrics import Rubric, Sequential

from ..models import TerminalObservation


class Kept(Rubric):
    """1.0 where all that had to stay as it was did, 0.0 otherwise."""

    def forward(self, action: Action, observation: TerminalObservation) -> float:
        """Look for what was lost."""
        return float(not observation.lost)


class Passed(Rubric):
    """The share of the checks that hold, without those for what had to stay."""

    def forward(self, action: Action, observation: TerminalObservation) -> float:
        """Count the checks."""
        counting = [holds for name, holds in observation.checks.items() if name not in observation.lost]
        return sum(counting) / len(counting)


def terminal_reward() -> Sequential:
    """Return the environment's reward: ``passed`` where all was ``kept``, else 0.0."""
    return Sequential(kept=Kept(), passed=Passed())
