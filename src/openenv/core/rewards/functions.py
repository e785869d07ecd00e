"""``FunctionReward``: a reward function of TRL's form as a rubric."""

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

from openenv.core.rewards.samples import ReadSample, SampleRubric

__all__ = ["FunctionReward"]


class FunctionReward(SampleRubric):
    """Score of a function that takes ``prompts``, ``completions`` and the columns, each a list, and returns a list.

    Args:
        function: The function, plain or ``async``.
        conversational: Whether it takes prompts and completions as lists of messages.
        sample: Reads what is scored; by default `sample_of`.

    Example:
        >>> def brevity(completions, **columns):
        ...     return [1.0 / len(completion.split()) for completion in completions]
        >>> FunctionReward(brevity)({"text": "Four words are here"}, {})
        0.25
    """

    def __init__(
        self, function: Callable[..., Any], *, conversational: bool = False, sample: ReadSample | None = None
    ) -> None:
        super().__init__(sample)
        self._function = function
        self._conversational = conversational

    def forward(self, action: Any, observation: Any) -> Any:
        """Call the function for the one sample.

        Raises:
            TypeError: It did not return one score.
        """
        sample = self._sample(action, observation)
        prompt: Any = sample.prompt
        completion: Any = sample.completion
        if self._conversational:
            prompt = [{"role": "user", "content": prompt}]
            completion = [{"role": "assistant", "content": completion}]
        columns = {name: [value] for name, value in sample.columns.items() if name not in ("prompts", "completions")}
        returned = self._function(prompts=[prompt], completions=[completion], **columns)
        return self._awaited(returned) if isawaitable(returned) else self._only(returned)

    async def _awaited(self, returned: Any) -> Any:
        return self._only(await returned)

    def _only(self, returned: Any) -> Any:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        if not isinstance(returned, Sequence) or isinstance(returned, str) or len(returned) != 1:
            raise TypeError(f"Expected a list of one score from {name}, got {returned!r:.100}.")
        return returned[0]
