"""``InspectReward``: a scorer of Inspect AI as a rubric. It needs the extra ``inspect``."""

from collections.abc import Mapping
from typing import Any

from openenv._extras import install_command
from openenv.core.rewards.samples import ReadSample, SampleRubric

__all__ = ["InspectReward"]

_MODEL = "openenv/agent"


class InspectReward(SampleRubric):
    """Score of a scorer of Inspect AI. Calls are ``async``.

    Correct, partly correct and incorrect count as 1, 0.5 and 0, as in Inspect.

    Args:
        scorer: The scorer, such as ``inspect_ai.scorer.match()``.
        key: Which of its values counts, of a scorer with several.
        sample: Reads what is scored; by default `sample_of`.

    Raises:
        ImportError: The package ``inspect-ai`` is not installed.

    Example::

        from inspect_ai.scorer import match

        super().__init__(rubric=InspectReward(match(numeric=True)))
    """

    def __init__(self, scorer: Any, *, key: str | None = None, sample: ReadSample | None = None) -> None:
        super().__init__(sample)
        try:
            from inspect_ai.scorer import value_to_float
        except ImportError as error:
            raise ImportError(f"InspectReward needs the package inspect-ai: {install_command('inspect')}") from error
        self._scorer = scorer
        self._key = key
        self._to_float = value_to_float()
        self._explanation: dict[str, Any] | None = None

    async def forward(self, action: Any, observation: Any) -> Any:
        """Score the sample.

        Raises:
            ValueError: The scorer gave no score, or several and no ``key`` says which counts.
        """
        from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelName, ModelOutput
        from inspect_ai.scorer import Target
        from inspect_ai.solver import TaskState

        sample = self._sample(action, observation)
        state = TaskState(
            model=ModelName(_MODEL),
            sample_id=0,
            epoch=0,
            input=sample.prompt,
            messages=[ChatMessageUser(content=sample.prompt), ChatMessageAssistant(content=sample.completion)],
            output=ModelOutput.from_content(_MODEL, sample.completion),
            metadata=dict(sample.columns),
        )
        score = await self._scorer(state, Target(sample.target or ""))
        if score is None:
            raise ValueError("Expected a score from the scorer, got none.")
        self._explanation = {"answer": score.answer, "explanation": score.explanation}
        return self._to_float(self._value(score.value))

    def evidence(self) -> Any:
        """Return the scorer's answer and explanation of the last call."""
        return self._explanation

    def _value(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if self._key not in value:
            raise ValueError(
                f"The scorer has the values {', '.join(value)}; expected key= to be one, got {self._key!r}."
            )
        return value[self._key]
