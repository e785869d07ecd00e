"""Players without a model, and one of them: it plays at random."""

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
"""Plays one episode: from each observation, the first of them reset's, to the next action."""

MAX_TRIES = 100


class RandomPlayer:
    """Chooses actions at random, from the action's schema alone.

    Where an observation has a list ``legal_actions`` and an action has one field, it chooses from that list.

    Args:
        actions: The environment's actions.
        seed: Of the choices.
        words: What texts are made of.

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
        """Choose an action.

        Args:
            observation: The last observation, or its fields.

        Returns:
            A legal action, as far as the schema tells.

        Raises:
            ConfigurationError: The schema asks for more than a random choice of values.
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
            "asks for more than a random choice of values."
        )

    def _text(self) -> str:
        if self._actions.choices:
            return self._random.choice(self._actions.choices)
        kinds = self._actions.kinds
        fields = kinds[0] if len(kinds) == 1 else self._random.choice(kinds)
        return self._actions.write({name: self._values.value(field) for name, field in fields.items()})


class RandomToolPlayer:
    """Calls tools at random, with arguments from their schemas alone.

    Args:
        tools: The environment's tools.
        seed: Of the choices.
        words: What texts are made of.
    """

    def __init__(self, tools: EnvironmentTools, seed: int, words: Sequence[str] = ("a", "b", "c")) -> None:
        self._tools = tools
        self._random = random.Random(seed)  # noqa: S311  # a game, not a secret
        self._arguments = {
            tool.name: RandomPlayer(ActionText(tool.input_schema), self._random.randrange(2**30), words)
            for tool in tools.tools
        }

    def __call__(self, observation: Any) -> BaseModel | dict[str, Any]:
        """Choose a call.

        Args:
            observation: Where it lists ``legal_actions`` and a tool has one argument, that list is chosen from.

        Returns:
            The action that the call is.

        Raises:
            ConfigurationError: A schema asks for more than a random choice of values.
        """
        name = self._random.choice(self._tools.names)
        arguments = self._arguments[name](observation)
        return self._tools.action(name, arguments if isinstance(arguments, dict) else arguments.model_dump())
