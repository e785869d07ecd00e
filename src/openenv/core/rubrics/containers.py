"""Rubrics of rubrics: one after another, a threshold, a weighted sum, a list and a dictionary."""

import asyncio
import math
from asyncio import _get_running_loop  # the form of get_running_loop() that answers None instead of raising
from collections.abc import Generator, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from inspect import isawaitable
from typing import Any

from openenv.core.rubrics.base import Rubric
from openenv.core.rubrics.bounds import reaches

__all__ = ["Gate", "RubricDict", "RubricList", "Sequential", "WeightedSum"]

_WEIGHT_TOLERANCE = 1e-6


class Sequential(Rubric):
    """Rubrics one after another, up to the first that scores 0: cheap checks before dear ones.

    The score is the last rubric's, 0 after a rubric that scored 0, and 1 without rubrics. Rubrics that were skipped are
    no component of the step.

    Args:
        *rubrics: The rubrics, which are named ``rubric_0``, ``rubric_1`` and so on.
        **named: Rubrics with names, which follow.

    Example:
        >>> from openenv.core.rubrics import Rubric, Sequential
        >>> class Length(Rubric):
        ...     def forward(self, action, observation):
        ...         return min(1.0, len(action) / 10)
        >>> Sequential(not_empty=Length(), long=Length())("hello", None)
        0.5
    """

    def __init__(self, *rubrics: Rubric, **named: Rubric) -> None:
        super().__init__()
        self._order = _assign(self, rubrics, named)

    def forward(self, action: Any, observation: Any) -> Any:
        """Call the rubrics in order."""
        score: Any = 1.0
        for position, rubric in enumerate(self._order):
            score = rubric(action, observation)
            if type(score) is not float and isawaitable(score) and not isinstance(score, _AwaitableScore):
                return self._go_on(score, position + 1, action, observation)
            if score == 0:
                return 0.0
        return score

    def __call__(self, action: Any, observation: Any) -> Any:
        """Score as every rubric does. In an event loop the score can also be awaited, as programs for OpenEnv do."""
        score = super().__call__(action, observation)
        if isinstance(score, float | int) and _get_running_loop() is not None:
            return _AwaitableScore(score)
        return score

    async def _go_on(self, awaitable: Any, position: int, action: Any, observation: Any) -> Any:
        score = await awaitable
        for rubric in self._order[position:]:
            if score == 0:
                return 0.0
            score = await _resolved(rubric(action, observation))
        return 0.0 if score == 0 else score

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Rubric:
        return self._order[index]


class Gate(Rubric):
    """Score of a rubric where it reaches a threshold, else 0.

    Args:
        rubric: The rubric, a child with this name.
        threshold: The lowest score that passes, but for rounding.
    """

    rubric: Rubric

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        super().__init__()
        self.rubric = rubric
        self.threshold = threshold

    def forward(self, action: Any, observation: Any) -> Any:
        """Call the rubric and compare its score."""
        score = self.rubric(action, observation)
        return self._gated(score) if isinstance(score, float | int) else self._gated_async(score)

    async def _gated_async(self, score: Any) -> float:
        return self._gated(await score)

    def _gated(self, score: float) -> float:
        return score if reaches(score, self.threshold) else 0.0


class WeightedSum(Rubric):
    """Weighted sum of scores; those of ``async`` rubrics are awaited together.

    Args:
        rubrics: The rubrics, named ``rubric_0``, ``rubric_1`` and so on, or by the keys of a dictionary.
        weights: A weight for each, in the same order or by the same keys; their sum is 1.

    Raises:
        ValueError: There is no weight for each rubric, a weight is not finite, or the sum is not 1.
        TypeError: A weight is no number.
    """

    def __init__(
        self, rubrics: Sequence[Rubric] | Mapping[str, Rubric], weights: Sequence[float] | Mapping[str, float]
    ) -> None:
        super().__init__()
        if isinstance(rubrics, Mapping):
            ordered = _by_name(rubrics, weights)
            self._order = _assign(self, (), rubrics)
        else:
            ordered = list(weights.values() if isinstance(weights, Mapping) else weights)
            _check_number(len(rubrics), len(ordered))
            self._order = _assign(self, rubrics, {})
        self._weights = _checked_weights(ordered)

    @property
    def weights(self) -> list[float]:
        """A copy of the weights."""
        return list(self._weights)

    def component_weights(self) -> Mapping[str, float]:
        """Return the weights by the children's names."""
        return dict(zip(self._rubric_children, self._weights, strict=True))

    def forward(self, action: Any, observation: Any) -> Any:
        """Add up the weighted scores."""
        scores = [rubric(action, observation) for rubric in self._order]
        total = 0.0
        try:
            for score, weight in zip(scores, self._weights, strict=True):
                total += score * weight
        except TypeError:  # an awaitable, since calls of rubrics return nothing else but numbers
            return self._gathered(scores)
        return total

    async def _gathered(self, scores: list[Any]) -> float:
        """Await scores together; the first error cancels the other calls."""
        tasks = [asyncio.ensure_future(_with_exit_wrapped(score)) for score in scores]
        try:
            awaited = await asyncio.gather(*tasks)
        except _ExitError as wrapper:
            raise wrapper.exit from None
        finally:
            for task in tasks:
                task.cancel()
        return math.fsum(score * weight for score, weight in zip(awaited, self._weights, strict=True))


class RubricList(Rubric):
    """List of rubrics, for a rubric that chooses among them; it has no score of its own.

    Args:
        rubrics: The first rubrics.
    """

    def __init__(self, rubrics: Iterable[Rubric] | None = None) -> None:
        super().__init__()
        self._order: list[Rubric] = []
        self.extend(rubrics or ())

    def forward(self, action: Any, observation: Any) -> Any:
        """Raise an error: which of the rubrics count is for the parent to say.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("RubricList has no score of its own; call the rubrics in it.")

    def append(self, rubric: Rubric) -> None:
        """Add a rubric, named ``rubric_`` and its index."""
        setattr(self, f"rubric_{len(self._order)}", rubric)
        self._order.append(rubric)

    def extend(self, rubrics: Iterable[Rubric]) -> None:
        """Add rubrics."""
        for rubric in rubrics:
            self.append(rubric)

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Rubric:
        return self._order[index]

    def __iter__(self) -> Iterator[Rubric]:
        return iter(self._order)


class RubricDict(Rubric):
    """Rubrics by key, such as one for each game; it has no score of its own.

    Args:
        rubrics: The first rubrics.
    """

    def __init__(self, rubrics: Mapping[str, Rubric] | None = None) -> None:
        super().__init__()
        self.update(rubrics or {})

    def forward(self, action: Any, observation: Any) -> Any:
        """Raise an error: which of the rubrics count is for the parent to say.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("RubricDict has no score of its own; call the rubrics in it.")

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Add or replace rubrics."""
        for key, rubric in rubrics.items():
            self[key] = rubric

    def __setitem__(self, key: str, rubric: Rubric) -> None:
        self._add_child(key, rubric)

    def __getitem__(self, key: str) -> Rubric:
        return self._rubric_children[key]

    def __delitem__(self, key: str) -> None:
        self._remove_child(key)

    def __contains__(self, key: object) -> bool:
        return key in self._rubric_children

    def __len__(self) -> int:
        return len(self._rubric_children)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rubric_children)

    def keys(self) -> KeysView[str]:
        """Return the keys."""
        return self._rubric_children.keys()

    def values(self) -> ValuesView[Rubric]:
        """Return the rubrics."""
        return self._rubric_children.values()

    def items(self) -> ItemsView[str, Rubric]:
        """Return the rubrics with their keys."""
        return self._rubric_children.items()


class _AwaitableScore(float):
    """Score that can also be awaited."""

    def __await__(self) -> Generator[Any, None, float]:
        yield from ()
        return float(self)


def _assign(rubric: Rubric, rubrics: Iterable[Rubric], named: Mapping[str, Rubric]) -> list[Rubric]:
    """Make rubrics children, and return them in order."""
    children = {f"rubric_{index}": child for index, child in enumerate(rubrics)} | dict(named)
    for name, child in children.items():
        if not isinstance(child, Rubric):
            raise TypeError(f"Expected a rubric for {name}, got {type(child).__name__}.")
        if name not in rubric.__dict__ and not hasattr(type(rubric), name):
            setattr(rubric, name, child)
        else:
            raise ValueError(f"{name!r} can't be a component's name: {type(rubric).__name__} has such an attribute.")
    return list(children.values())


def _by_name(rubrics: Mapping[str, Rubric], weights: Sequence[float] | Mapping[str, float]) -> list[float]:
    if not isinstance(weights, Mapping):
        _check_number(len(rubrics), len(weights))
        return list(weights)
    if rubrics.keys() != weights.keys():
        raise ValueError(f"Expected weights for {', '.join(rubrics)}, got weights for {', '.join(weights)}.")
    return [weights[name] for name in rubrics]


def _check_number(rubrics: int, weights: int) -> None:
    if rubrics != weights:
        raise ValueError(f"The numbers of rubrics and weights must match, got {rubrics} rubrics and {weights} weights.")


def _checked_weights(weights: list[float]) -> list[float]:
    try:
        total = math.fsum(weights)
    except TypeError:
        raise TypeError(f"Expected a number as each weight, got {weights!r:.200}.") from None
    if not abs(total - 1.0) <= _WEIGHT_TOLERANCE:  # also true of NaN
        raise ValueError(f"Weights must sum to 1.0, got {total}; divide each of {weights} by their sum.")
    return [float(weight) for weight in weights]


async def _resolved(score: Any) -> Any:
    return await score if isawaitable(score) else score


async def _with_exit_wrapped(score: Any) -> Any:
    """Await a score in a task of its own, out of which a ``SystemExit`` would end the event loop."""
    try:
        return await _resolved(score)
    except SystemExit as error:
        raise _ExitError(error) from None


class _ExitError(Exception):
    """Wrapper that carries a ``SystemExit`` out of a task."""

    def __init__(self, error: SystemExit) -> None:
        self.exit = error
        super().__init__()
