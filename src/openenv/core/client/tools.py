"""Clients that a trainer takes for a rollout's environment as they are: what they have of their own are tools.

A trainer such as TRL's ``GRPOTrainer`` makes a tool of every public function that it finds on an environment's class,
but for ``reset``. On a client these would be ``step``, ``close`` and all else that is not for models.
"""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper
from types import MethodType
from typing import Any, cast

from openenv.core.client.results import ActT, ObsT, StateT, StepResult
from openenv.core.client.typed import TypedEnvClient
from openenv.core.exceptions import InvalidRequestError, RequestRejectedError
from openenv.core.reset_check import without_unknown
from openenv.core.schema.generator import faults_text
from openenv.core.wire.actions import decode_action

__all__ = ["EPISODE_OVER", "TRAINER_COLUMNS", "HiddenMethod", "ToolClient", "refusal_text", "task_columns"]

EPISODE_OVER = "The episode is over. No further action is taken."
TRAINER_COLUMNS = frozenset(
    {"prompt", "prompts", "completions", "completion_ids", "environment", "environments", "image", "images"}
    | {"tools", "chat_template_kwargs", "trainer_state", "log_extra", "log_metric"}
)
"""Columns of a dataset that are the trainer's, and say nothing of a task."""

_PROMPT = "prompt"
_JSON = (str, int, float, bool, list, dict)


class HiddenMethod:
    """A method that no search for functions on its class finds. Otherwise it is as any other.

    Args:
        function: The method.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        update_wrapper(self, function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind it."""
        return self if instance is None else MethodType(self._function, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as ``Class.method(instance, ...)`` does."""
        return self._function(*args, **kwargs)


class ToolClient(TypedEnvClient[ActT, ObsT, StateT]):
    """A client that a trainer takes for an environment: it finds ``reset``, and the subclass's own methods as tools.

    So a subclass has no public methods but tools, each with type hints and a docstring in Google's style. For the rest
    it is the client that every other one is. Tools block, in a running event loop too, for that is how trainers call
    them: code that awaits ``step`` has no use for them.

    Example:
        >>> class CounterEnv(ToolClient[Add, Total, State]):  # doctest: +SKIP
        ...     def add(self, amount: int) -> str:
        ...         '''Add to the total.
        ...
        ...         Args:
        ...             amount: How much.
        ...         '''
        ...         return self._act(amount=amount)
        ...
        ...     def _result_text(self, result: StepResult[Total]) -> str:
        ...         return f"The total is {result.observation.total}."
        >>> trainer = GRPOTrainer(  # doctest: +SKIP
        ...     ..., environment_factory=lambda: CounterEnv(base_url="http://localhost:8000")
        ... )
    """

    _episode_over = False
    _schemas: Mapping[str, Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Hide what every client has."""
        super().__init_subclass__(**kwargs)
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if name in _OF_CLIENTS:
                setattr(cls, name, HiddenMethod(method))

    @abstractmethod
    def _result_text(self, result: StepResult[ObsT]) -> str:
        """Write a result for a model, of a reset or of a step."""

    def reset(self, /, **kwargs: Any) -> Coroutine[Any, Any, StepResult[ObsT]]:
        """Start an episode.

        Args:
            **kwargs: As in ``EnvClient.reset``. Where a ``prompt`` is among them, they are the columns of a trainer's
                dataset: the trainer's own are left out, those that hold nothing, and those that the environment's
                ``reset`` does not take.

        Returns:
            The first observation. With a ``prompt``, which only trainers pass, it is text and there at once, in a
            running event loop too.

        Raises:
            ServerError: As ``EnvClient.reset`` raises it, and all its other errors.
        """
        if _PROMPT not in kwargs:
            return super().reset(**kwargs)
        if self._schemas is None:
            self._schemas = self.sync().schemas()
        row = without_unknown(self._schemas.get("reset"), task_columns(kwargs))
        text = self._result_text(self.sync().reset(**row))
        return cast("Coroutine[Any, Any, StepResult[ObsT]]", text)

    def _act(self, **fields: Any) -> str:
        """Do what a tool stands for.

        Args:
            **fields: The action's.

        Returns:
            Text for the model: the result, why the call was refused, or that the episode is over.
        """
        if self._episode_over:
            return EPISODE_OVER
        try:
            action = cast("ActT", decode_action(fields, self.action_class))
            return self._result_text(self.sync().step(action))
        except (InvalidRequestError, RequestRejectedError) as error:
            return refusal_text(error)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        result = super()._parse_result(payload)
        self._episode_over = result.done
        return result


def refusal_text(error: InvalidRequestError | RequestRejectedError) -> str:
    """Say why an action was refused, for the model.

    Args:
        error: The refusal.

    Returns:
        What is wrong with each field, where it says so; else its sentence.
    """
    return faults_text(error.errors) if error.errors else error.message


def task_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what says nothing of a task: the trainer's own columns, and those that hold nothing in this row.

    Args:
        row: A row of a trainer's dataset, by the columns' names.
    """
    return {name: value for name, value in row.items() if name not in TRAINER_COLUMNS and isinstance(value, _JSON)}


_OF_CLIENTS = frozenset(
    name
    for name, _ in inspect.getmembers(TypedEnvClient, inspect.isfunction)
    if not name.startswith("_") and name != "reset"
)
