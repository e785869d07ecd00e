"""A prompt and its completion, which other libraries score, from an action and its observation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from openenv.core.exceptions import ConfigurationError
from openenv.core.rubrics.base import Rubric

__all__ = ["ReadSample", "Sample", "SampleRubric", "sample_of"]

_COMPLETIONS = ("completion", "answer", "text", "message", "code", "content")
_PROMPTS = ("prompt", "question", "task", "text")
_TARGETS = ("target", "answer", "expected")


@dataclass(frozen=True)
class Sample:
    """What is scored.

    Attributes:
        prompt: What the model was set to.
        completion: What it wrote.
        target: The right answer, where there is one.
        columns: Further values by name, such as those of a data set's row.
    """

    prompt: str
    completion: str
    target: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


ReadSample: TypeAlias = Callable[[Any, Any], Sample]
"""From an action and its observation to what is scored."""


class SampleRubric(Rubric):
    """Base of the rubrics that score a sample.

    Args:
        sample: Reads the sample; by default `sample_of`.
    """

    def __init__(self, sample: ReadSample | None = None) -> None:
        super().__init__()
        self._sample = sample or sample_of


def sample_of(action: Any, observation: Any) -> Sample:
    """Read a sample from the usual fields.

    Args:
        action: Has the completion as ``completion``, ``answer``, ``text``, ``message``, ``code`` or ``content``.
        observation: Has the prompt as ``prompt``, ``question``, ``task`` or ``text``, if it has one. Its ``metadata``
            are the columns, and hold the right answer as ``target``, ``answer`` or ``expected``, if there is one.

    Raises:
        ConfigurationError: The action has no such field.

    Example:
        >>> sample_of({"answer": "4"}, {"prompt": "2 + 2?", "metadata": {"target": "4"}})
        Sample(prompt='2 + 2?', completion='4', target='4', columns={'target': '4'})
    """
    completion = _first_text(action, _COMPLETIONS)
    if completion is None:
        raise ConfigurationError(
            f"{type(action).__name__} has none of the fields {', '.join(_COMPLETIONS)} with a text, so what is scored "
            "has to be said: pass sample=, a function from an action and an observation to a Sample."
        )
    metadata = _field(observation, "metadata")
    columns = dict(metadata) if isinstance(metadata, Mapping) else {}
    target = next((str(columns[name]) for name in _TARGETS if columns.get(name) is not None), None)
    return Sample(_first_text(observation, _PROMPTS) or "", completion, target, columns)


def _first_text(value: Any, names: tuple[str, ...]) -> str | None:
    if isinstance(value, str):
        return value
    return next((text for name in names if isinstance(text := _field(value, name), str)), None)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
