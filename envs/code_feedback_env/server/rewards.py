"""The reward of an attempt, and its parts."""

from openenv.core.rubrics import Rubric

from ..models import CodeAction, CodeObservation


class Gained(Rubric):
    """The share of the tests by which an attempt is better than the best one before; without tests, 1.0 for any code.

    Code that can't be used gains nothing.
    """

    def forward(self, action: CodeAction, observation: CodeObservation) -> float:
        """Divide what was gained by the number of tests."""
        if observation.gained is None or observation.total is None:
            return float(observation.error is None)
        return observation.gained / observation.total


class Broken(Rubric):
    """1.0 for code that does not define the function, 0.0 for code that does."""

    def forward(self, action: CodeAction, observation: CodeObservation) -> float:
        """Look for the error."""
        return float(observation.error is not None)


class CodeFeedbackReward(Rubric):
    """Reward of the attempt: that of ``gained``, and -0.5 for ``broken`` code."""

    def __init__(self) -> None:
        super().__init__()
        self.gained = Gained()
        self.broken = Broken()

    def component_weights(self) -> dict[str, float]:
        """Return what each part adds."""
        return {"gained": 1.0, "broken": -0.5}

    def forward(self, action: CodeAction, observation: CodeObservation) -> float:
        """Add up the parts."""
        weights = self.component_weights()
        return float(sum(weights[name] * part(action, observation) for name, part in self.named_children()))
