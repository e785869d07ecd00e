"""``VerifiersReward``: a rubric of verifiers as a rubric of ours.

It calls ``score_rollout`` as the environments of verifiers do, and imports nothing of the package, whose newest release
pins versions that do not install beside ours.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from openenv.core.rewards.samples import ReadSample, SampleRubric
from openenv.core.rubrics.base import Rubric

__all__ = ["VerifiersReward", "VerifiersRubric"]


class VerifiersRubric(Protocol):
    """What a rubric of verifiers does."""

    async def score_rollout(self, state: Any) -> Any:
        """Write ``reward`` and ``metrics`` into the state of a rollout."""
        ...


class _Metric(Rubric):
    """Score that a rubric of verifiers has written."""

    value: Any = None

    def forward(self, action: Any, observation: Any) -> Any:
        return self.value


class VerifiersReward(SampleRubric):
    """Score of a rubric of verifiers. Calls are ``async``; its metrics are the components, with its weights.

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

    async def forward(self, action: Any, observation: Any) -> Any:
        """Have the rubric score a rollout of one turn.

        Raises:
            ValueError: The rubric wrote no reward.
        """
        sample = self._sample(action, observation)
        rollout = {
            "prompt": [{"role": "user", "content": sample.prompt}],
            "completion": [{"role": "assistant", "content": sample.completion}],
            "answer": sample.target or "",
            "info": dict(sample.columns),
            "task": self._task,
        }
        return await self.score(rollout, action, observation)

    async def score(self, rollout: Mapping[str, Any], action: Any, observation: Any) -> Any:
        """Have the rubric score a rollout, and keep its metrics as components.

        Args:
            rollout: What the rubric reads of the rollout: ``prompt``, ``completion``, ``answer``, ``info``, ``task``.
            action: The agent's action, for hooks.
            observation: The observation after it, for hooks.

        Raises:
            ValueError: The rubric wrote no reward.
        """
        written: dict[str, Any] = {"reward": None, "metrics": {}, "trajectory": [], "timing": {}}
        state: dict[str, Any] = {"example_id": 0, **rollout, **written}
        await self._rubric.score_rollout(state)
        if state.get("reward") is None:
            raise ValueError(f"Expected {type(self._rubric).__name__}.score_rollout to write a reward, got none.")
        metrics = state.get("metrics")
        for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
            self._metric(str(name)).value = value
            self._metric(str(name))(action, observation)
        return state["reward"]

    def component_weights(self) -> dict[str, float]:
        """Return the weights of the rubric's functions, by their names, where each name has one."""
        weights: dict[str, float] = {}
        ambiguous = set()
        for name, weight in _weights_of(self._rubric):
            if weights.setdefault(name, weight) != weight:
                ambiguous.add(name)
        return {name: weight for name, weight in weights.items() if name not in ambiguous}

    def _metric(self, name: str) -> _Metric:
        known = self._rubric_children.get(name)
        if isinstance(known, _Metric):
            return known
        metric = _Metric()
        self._add_child(name, metric)
        return metric


def _weights_of(rubric: Any) -> Iterator[tuple[str, float]]:
    """Yield the names and weights of a rubric's functions, and of the rubrics that it is a group of."""
    functions, weights = getattr(rubric, "funcs", ()), getattr(rubric, "weights", ())
    for function, weight in zip(functions, weights, strict=False):
        yield getattr(function, "__name__", repr(function)), float(weight)
    for each in getattr(rubric, "rubrics", ()):
        yield from _weights_of(each)
