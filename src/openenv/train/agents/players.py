"""Players without a model: the type of all of them, and those that play at random."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from openenv.adapters.text import ActionText, observation_fields
from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.values import RandomValues
from openenv.train.tools.environment_tools import EnvironmentTools

__all__ = ["Player", "RandomPlayer", "RandomToolPlayer"]

Player = Callable[[Any], Any]
"""Function of one episode, from each observation, the first of them that of the reset, to the next action."""

MAX_TRIES = 100


class RandomPlayer:
    """Player that draws actions of one field from an observation's ``legal_actions``, others from the action's schema.

    Example:
        >>> from typing import Literal
        >>> class Move(BaseModel):
        ...     direction: Literal["left", "right"]
        >>> RandomPlayer(ActionText(Move), seed=1)({})
        Move(direction='left')
    """

    def __init__(self, actions: ActionText, seed: int, words: Sequence[str] = ("a", "b", "c")) -> None:
        self._actions = actions
        self._random = random.Random(seed)  # noqa: S311  # a game, not a secret
        self._values = RandomValues(self._random, words)

    def __call__(self, observation: Any) -> BaseModel | dict[str, Any]:
        """Return a random action for an observation or its fields, which is legal as far as the schema describes it.

        Raises:
            ConfigurationError: The schema requires more than a random choice of values.
        """
        allowed = observation_fields(observation).get("legal_actions")
        if isinstance(allowed, list) and allowed:
            action = self._actions.make_single(self._random.choice(allowed))
            if action is not None:
                return action
        for _ in range(MAX_TRIES):
            reading = self._actions.read(self._text())
            if reading.legal and reading.action is not None:
                return reading.action
        raise ConfigurationError(
            f"No legal action in {MAX_TRIES} random ones; the action's schema ({', '.join(self._actions.fields)}) "
            "requires more than a random choice of values."
        )

    def _text(self) -> str:
        if self._actions.choices:
            return self._random.choice(self._actions.choices)
        kinds = self._actions.kinds
        fields = kinds[0] if len(kinds) == 1 else self._random.choice(kinds)
        return self._actions.write({name: self._values.value(field) for name, field in fields.items()})


class RandomToolPlayer:
    """Player that calls tools at random, with arguments from their schemas alone."""

    def __init__(self, tools: EnvironmentTools, seed: int, words: Sequence[str] = ("a", "b", "c")) -> None:
        self._tools = tools
        self._random = random.Random(seed)  # noqa: S311  # a game, not a secret
        self._arguments = {
            tool.name: RandomPlayer(ActionText(tool.input_schema), self._random.randrange(2**30), words)
            for tool in tools.tools
        }

    def __call__(self, observation: Any) -> BaseModel | dict[str, Any]:
        """Return the action of a random call; an only argument comes from the observation's ``legal_actions``.

        Raises:
            ConfigurationError: A schema requires more than a random choice of values.
        """
        name = self._random.choice(self._tools.names)
        arguments = self._arguments[name](observation)
        return self._tools.action(name, arguments if isinstance(arguments, dict) else arguments.model_dump())
