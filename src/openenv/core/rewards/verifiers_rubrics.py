"""``VerifiersReward``: a rubric of verifiers as a rubric of ours.

It calls ``score_rollout`` as the environments of verifiers do, and imports nothing of the package, whose releases pin
versions of ``mcp`` and ``openai`` that do not install beside ours. So it is not tested with the package itself.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

from openenv.core.rewards.samples import ReadSample, SampleRubric

__all__ = ["VerifiersReward", "VerifiersRubric"]


class VerifiersRubric(Protocol):
    """What a rubric of verifiers does."""

    async def score_rollout(self, state: Any) -> Any:
        """Write ``reward`` and ``metrics`` into the state of a rollout."""
        ...


class VerifiersReward(SampleRubric):
    """Score of a rubric of verifiers. Calls are ``async``; the metrics are what the score rests on.

    The state that the rubric reads has ``prompt`` and ``completion`` as messages, the right ``answer``, the columns as
    ``info``, and the ``task``.

    Args:
        rubric: The rubric.
        task: Name of the task, for rubrics that tell tasks apart.
        sample: Reads what is scored; by default `sample_of`.
    """

    def __init__(self, rubric: VerifiersRubric, *, task: str = "default", sample: ReadSample | None = None) -> None:
        super().__init__(sample)
        self._rubric = rubric
        self._task = task
        self._metrics: Any = None

    async def forward(self, action: Any, observation: Any) -> Any:
        """Have the rubric score a rollout of one turn.

        Raises:
            ValueError: The rubric wrote no reward.
        """
        sample = self._sample(action, observation)
        state: MutableMapping[str, Any] = {
            "prompt": [{"role": "user", "content": sample.prompt}],
            "completion": [{"role": "assistant", "content": sample.completion}],
            "answer": sample.target or "",
            "info": dict(sample.columns),
            "task": self._task,
            "example_id": 0,
            "reward": None,
            "metrics": {},
            "trajectory": [],
            "timing": {},
        }
        await self._rubric.score_rollout(state)
        if state.get("reward") is None:
            raise ValueError(f"Expected {type(self._rubric).__name__}.score_rollout to write a reward, got none.")
        metrics = state.get("metrics")
        self._metrics = dict(metrics) if isinstance(metrics, Mapping) else None
        return state["reward"]

    def evidence(self) -> Any:
        """Return the metrics of the last call."""
        return self._metrics
