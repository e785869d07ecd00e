"""``Rubric``: the reward of an action and its observation, made of named components.

A rubric is a function with children. Calling it runs ``forward``, checks the score and keeps it in ``last_score``; a
rubric in an attribute of another is its child. The children's names, joined by dots, are the names of the reward's
components.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from inspect import isawaitable, iscoroutinefunction
from itertools import count
from math import isfinite
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from openenv.core.plain_values import single_value

__all__ = ["Rubric"]

PreHook: TypeAlias = Callable[["Rubric", Any, Any], Any]
Hook: TypeAlias = Callable[["Rubric", Any, Any, Any], Any]

# Orders all calls, and the ends of those that are awaited, so that a score can be told from one of an earlier step.
_next_tick = count(1).__next__
# Numbers the changes of any rubric's children: a list of components is valid for as long as no further one comes.
# Rubrics are made in several threads: a sum of two steps (read, add) could come to the same number twice.
_next_change = count(1).__next__
_last_change = 0

# Attribute of an exception: the innermost rubric that raised it.
_RAISED_BY = "_raised_by_rubric"
# What a component raises by its own fault. Code that is called as a component may call sys.exit().
_FAULTS = (Exception, SystemExit)


class _Listing(NamedTuple):
    """Rubrics below a root, read once and used for every step.

    Attributes:
        change: Number of the last change of rubrics' children before.
        rubrics: The rubrics, by path. Not their ``__dict__``, which ``copy.deepcopy`` would separate from them.
        weights: The weights of those whose weighted sum the root is, by path.
        witnesses: The root and the rubrics that have ``evidence``, by path.
    """

    change: int
    rubrics: dict[str, "Rubric"]
    weights: dict[str, float]
    witnesses: dict[str, "Rubric"]


class Rubric(ABC):
    """Reward of an action and its observation.

    Subclasses define ``forward``, plain or ``async``. A rubric that is assigned to an attribute becomes a child, and
    its score a component of the reward::

        class Answer(Rubric):
            def __init__(self) -> None:
                self.correct = Correct()
                self.format = Format()

            def forward(self, action: Any, observation: Any) -> float:
                return 0.8 * self.correct(action, observation) + 0.2 * self.format(action, observation)

            def component_weights(self) -> dict[str, float]:
                return {"correct": 0.8, "format": 0.2}

    Attributes:
        last_score: Score of the last call; ``None`` before.
    """

    last_score: float | None
    _forward_is_async: ClassVar[bool] = False
    _is_async: bool
    # Whether a call is ``forward`` alone: no hook, nothing ``async``.
    _is_direct: bool
    _scored: int
    _rubric_children: dict[str, "Rubric"]
    _forward_hooks: list[Hook]
    _forward_pre_hooks: list[PreHook]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the rubric; not in ``__init__``, which many subclasses don't call."""
        rubric = super().__new__(cls)
        rubric.__dict__.update(
            last_score=None,
            _rubric_children={},
            _forward_hooks=[],
            _forward_pre_hooks=[],
            _is_async=cls._forward_is_async,
            _is_direct=not cls._forward_is_async,
            _begun=0,
            _scored=0,
            _components=None,
        )
        return rubric

    def __init__(self) -> None:  # noqa: B027  # for subclasses that call it; __new__ does the work
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Note whether ``forward`` is ``async``."""
        super().__init_subclass__(**kwargs)
        cls._forward_is_async = iscoroutinefunction(cls.forward)

    @abstractmethod
    def forward(self, action: Any, observation: Any) -> Any:
        """Return the score, nominally from 0 to 1; may be ``async``.

        Args:
            action: The agent's action.
            observation: The observation after it.
        """

    def __call__(self, action: Any, observation: Any) -> Any:
        """Score an action and its observation: run the pre-hooks, ``forward`` and the hooks, and keep the score.

        Args:
            action: The agent's action.
            observation: The observation after it.

        Returns:
            The score; a coroutine of it where ``forward`` or a hook is ``async``.

        Raises:
            TypeError: ``forward`` returned no number.
            ValueError: ``forward`` returned NaN or infinity.
        """
        if not self._is_direct:
            return self._call_hooked(action, observation)
        attributes = self.__dict__  # assigning to attributes looks for children
        begun = attributes["_begun"] = _next_tick()
        try:
            score = self.forward(action, observation)
            if type(score) is not float or not isfinite(score):
                if not isinstance(score, float) and isawaitable(score):
                    return self._finish_async(score, action, observation)
                score = _checked(score)
        except _FAULTS as error:
            _mark(error, self)
            raise
        attributes["last_score"] = score
        attributes["_scored"] = begun
        return score

    def _call_hooked(self, action: Any, observation: Any) -> Any:
        """Score with hooks, or by a ``forward`` that is ``async``."""
        if self._is_async:
            return self._call_async(action, observation)
        begun = self.__dict__["_begun"] = _next_tick()
        try:
            for pre_hook in self._forward_pre_hooks:
                pre_hook(self, action, observation)
            score = self.forward(action, observation)
            if not isinstance(score, float) and isawaitable(score):
                return self._finish_async(score, action, observation)
            score = self._keep(_checked(score), begun)
            for hook in self._forward_hooks:
                hook(self, action, observation, score)
        except _FAULTS as error:
            _mark(error, self)
            raise
        return score

    async def _call_async(self, action: Any, observation: Any) -> Any:
        self.__dict__["_begun"] = _next_tick()
        try:
            for pre_hook in self._forward_pre_hooks:
                await _resolved(pre_hook(self, action, observation))
            score = self.forward(action, observation)
        except _FAULTS as error:
            _mark(error, self)
            raise
        return await self._finish_async(score, action, observation)

    async def _finish_async(self, returned: Any, action: Any, observation: Any) -> Any:
        try:
            score = self._keep(_checked(await _resolved(returned)), _next_tick())
            for hook in self._forward_hooks:
                await _resolved(hook(self, action, observation, score))
        except _FAULTS as error:
            _mark(error, self)
            raise
        return score

    def _keep(self, score: Any, at: int) -> Any:
        self.__dict__.update(last_score=score, _scored=at)
        return score

    def register_forward_hook(self, hook: Hook) -> None:
        """Add a function that is called after each score.

        Args:
            hook: Called with the rubric, the action, the observation and the score. An ``async`` hook makes the
                rubric's calls return coroutines.
        """
        self._forward_hooks.append(hook)
        self._note_hook(hook)

    def register_forward_pre_hook(self, hook: PreHook) -> None:
        """Add a function that is called before each ``forward``.

        Args:
            hook: Called with the rubric, the action and the observation; may be ``async``, as above.
        """
        self._forward_pre_hooks.append(hook)
        self._note_hook(hook)

    def _note_hook(self, hook: Callable[..., Any]) -> None:
        self.__dict__["_is_direct"] = False
        if iscoroutinefunction(hook) or iscoroutinefunction(getattr(hook, "__call__", None)):  # noqa: B004
            self.__dict__["_is_async"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Rubric):
            self._add_child(name, value)
        elif name in self._rubric_children:
            self._remove_child(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in self._rubric_children:
            self._remove_child(name)

    def _add_child(self, name: str, child: "Rubric") -> None:
        global _last_change  # noqa: PLW0603  # see its definition
        if child is self or any(each is self for each in child.rubrics()):
            raise ValueError(
                f"{type(self).__name__}.{name}: a rubric can't be a component of itself, and {type(child).__name__} "
                f"has this {type(self).__name__} among its components. Make another instance for it."
            )
        self._rubric_children[name] = child
        _last_change = _next_change()

    def _remove_child(self, name: str) -> None:
        global _last_change  # noqa: PLW0603  # see its definition
        del self._rubric_children[name]
        _last_change = _next_change()

    def children(self) -> Iterator["Rubric"]:
        """Iterate over the children."""
        yield from self._rubric_children.values()

    def named_children(self) -> Iterator[tuple[str, "Rubric"]]:
        """Iterate over the children with their names."""
        yield from self._rubric_children.items()

    def rubrics(self) -> Iterator["Rubric"]:
        """Iterate over all rubrics below this one, depth first."""
        for _, rubric in self.named_rubrics():
            yield rubric

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, "Rubric"]]:
        """Iterate over all rubrics below this one with their paths, depth first.

        Args:
            prefix: Path of this rubric, without a dot at the end.
        """
        for name, child in self._rubric_children.items():
            path = f"{prefix}.{name}" if prefix else name
            yield path, child
            yield from child.named_rubrics(path)

    def get_rubric(self, path: str) -> "Rubric":
        """Return the rubric at a path.

        Args:
            path: Names of children, joined by dots.

        Raises:
            KeyError: There is none.
        """
        for name, rubric in self.named_rubrics():
            if name == path:
                return rubric
        known = ", ".join(name for name, _ in self.named_rubrics()) or "none"
        raise KeyError(f"Rubric path not found: {path}; expected one of: {known}")

    def component_weights(self) -> Mapping[str, float]:
        """Return the weight of each child whose score the total is a weighted sum of; by default there is none.

        Returns:
            Weights by the children's names.
        """
        return {}

    def reset(self) -> None:
        """Begin an episode; by default, resets the children. A subclass that keeps something clears it here."""
        for child in self._rubric_children.values():
            child.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the rubric's settings, without the children's; by default none."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027  # many have no settings
        """Restore what ``state_dict`` returned."""

    def episode_state(self) -> Any:
        """Return what the rubric has kept since the last reset, for snapshots of a session; ``None`` for nothing.

        Returns:
            Whatever JSON can hold.
        """
        return None

    def load_episode_state(self, state: Any) -> None:  # noqa: B027  # many keep nothing
        """Restore what ``episode_state`` returned, after a round trip through JSON."""

    def evidence(self) -> Any:
        """Return what the last score rests on, for the record: such as the prompt and the answer of a judge.

        Returns:
            Whatever JSON can hold; ``None`` for nothing. It travels in the metadata of the step.
        """
        return None

    def component_scores(self, since: int = 0) -> dict[str, float]:
        """Return the scores of the components that were called, those of all rubrics below this one, by path.

        Args:
            since: A value of ``tick``: scores from before are left out. Those of a component that was skipped, as
                behind the first 0 of a ``Sequential``, are of an earlier step.
        """
        return {
            path: score if type(score := rubric.last_score) is float else float(score)  # type: ignore[arg-type]
            for path, rubric in self._listing().rubrics.items()
            if rubric._scored > since
        }

    def total_weights(self, scored: Mapping[str, float] | None = None) -> Mapping[str, float]:
        """Return the weights in this rubric's score of the components that it is a weighted sum of, by path.

        Args:
            scored: Scores from ``component_scores``, to leave out the weights of other components; ``None`` for all.
        """
        listing = self._listing()
        if scored is None or len(scored) == len(listing.rubrics):
            return listing.weights
        return {path: weight for path, weight in listing.weights.items() if path in scored}

    def component_evidence(self, since: int = 0) -> dict[str, Any]:
        """Return the ``evidence`` of this rubric and those below it that were called, by path.

        Args:
            since: As for ``component_scores``.
        """
        witnesses = self._listing().witnesses
        if not witnesses:  # as in most rubrics, in each step
            return {}
        return {
            path: evidence
            for path, rubric in witnesses.items()
            if rubric.scored_since(since) and (evidence := rubric.evidence()) is not None
        }

    def scored_since(self, since: int) -> bool:
        """Return whether the rubric was called, and has scored, since a ``tick``."""
        return bool(self.__dict__["_scored"] > since)

    def _listing(self) -> "_Listing":
        listing: _Listing | None = self.__dict__["_components"]
        if listing is None or listing.change != _last_change:
            listing = self.__dict__["_components"] = _listing_of(self)
        return listing


def tick() -> int:
    """Return a number that is greater than those of all calls so far, for ``component_scores``."""
    return _next_tick()


def failed_component(error: BaseException, root: Rubric) -> str | None:
    """Return the path of the component that raised an exception; ``None`` if none did.

    Args:
        error: The exception.
        root: The rubric that was called. Its own path is its class's name.
    """
    raised_by = getattr(error, _RAISED_BY, None)
    return None if raised_by is None else path_of(raised_by, root)


def running_component(root: Rubric, since: int) -> str | None:
    """Return the path of the innermost component whose call has begun and not ended; ``None`` if there is none.

    Args:
        root: The rubric that was called.
        since: Value of ``tick`` before the call.
    """
    called = [root, *root.rubrics()]
    running = [each for each in called if each.__dict__["_begun"] > max(since, each.__dict__["_scored"])]
    return path_of(max(running, key=lambda each: each.__dict__["_begun"]), root) if running else None


def path_of(rubric: Rubric, root: Rubric) -> str:
    """Return the path of a rubric below another; its class's name if it is not there, or is the root."""
    return next((path for path, each in root.named_rubrics() if each is rubric), type(rubric).__name__)


def _listing_of(root: Rubric) -> _Listing:
    change = _last_change  # before the children are read
    below = list(_weighted(root, "", 1.0))
    named = {type(root).__name__: root} | {path: rubric for path, rubric, _ in below}
    return _Listing(
        change,
        {path: rubric for path, rubric, _ in below},
        {path: weight for path, _, weight in below if weight is not None},
        {path: rubric for path, rubric in named.items() if type(rubric).evidence is not Rubric.evidence},
    )


def _weighted(rubric: Rubric, prefix: str, weight: float | None) -> Iterator[tuple[str, Rubric, float | None]]:
    weights = rubric.component_weights()
    for name, child in rubric.named_children():
        own = weights.get(name)
        product = None if own is None or weight is None else own * weight
        path = f"{prefix}{name}"
        yield path, child, product
        yield from _weighted(child, f"{path}.", product)


def _checked(score: Any) -> Any:
    """Check a score. Integers stay integers; scalars of NumPy and PyTorch become floats."""
    if isinstance(score, int) and not isinstance(score, bool):
        return score
    if score is None or isinstance(score, str | bytes):
        raise TypeError(f"Expected a number from forward, got {score!r:.100}.")
    try:
        number = float(single_value(score))
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"Expected a number from forward, got {score!r:.100}.") from None
    if not isfinite(number):
        raise ValueError(f"Expected a finite number from forward, got {number}.")
    return number


async def _resolved(value: Any) -> Any:
    return await value if isawaitable(value) else value


def _mark(error: BaseException, rubric: Rubric) -> None:
    """Note the innermost rubric that raised an exception."""
    if getattr(error, _RAISED_BY, None) is None:
        setattr(error, _RAISED_BY, rubric)
        error.add_note(f"raised in the reward component {type(rubric).__name__}")
