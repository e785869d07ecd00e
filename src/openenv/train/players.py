"""Players without a model: one that plays at random, and playing an environment with any of them."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from openenv.adapters.text import ActionText, observation_fields, observation_text
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.values import RandomValues
from openenv.train.contents import call_content, call_problem
from openenv.train.environment_tools import EnvironmentTools
from openenv.train.episodes import Episode, raise_if_most_failed
from openenv.train.played_episode import text_of
from openenv.train.sessions import Sessions
from openenv.train.tool_policy import call_text

__all__ = ["Player", "RandomPlayer", "RandomToolPlayer", "play_players", "play_tasks"]

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


def play_players(
    sessions: Sessions,
    players: Sequence[Player],
    seeds: Sequence[int],
    *,
    max_turns: int,
    reset: Mapping[str, Any] | None = None,
) -> list[Episode]:
    """Play one episode with each player, all at once.

    Args:
        sessions: The environment; at least as many sessions as players.
        players: A fresh player for each episode.
        seeds: The seed of each episode.
        max_turns: Actions after which an episode is cut off.
        reset: What every reset is passed beside its seed.

    Returns:
        The episodes, without tokens; the texts of the actions are those that the players meant.

    Raises:
        OpenEnvError: A reset failed, or the environment failed in more than half of the episodes.
    """
    return play_tasks(sessions, players, [{**(reset or {}), "seed": seed} for seed in seeds], max_turns=max_turns)


def play_tasks(
    sessions: Sessions, players: Sequence[Player], tasks: Sequence[Mapping[str, Any]], *, max_turns: int
) -> list[Episode]:
    """Play one episode with each player, all at once.

    Args:
        sessions: The environment; at least as many sessions as players.
        players: A fresh player for each episode.
        tasks: What the reset of each episode is passed.
        max_turns: Actions after which an episode is cut off.

    Returns:
        The episodes, without tokens; the texts of the actions are those that the players meant.

    Raises:
        OpenEnvError: A reset failed, or the environment failed in more than half of the episodes.
    """
    texts = _Texts(sessions)
    episodes = [Episode.of_task(task) for task in tasks]
    results = sessions.reset_tasks([episode.parameters for episode in episodes])
    for episode, result in zip(episodes, results, strict=True):
        episode.done = result.done
    seen = {number: result for number, result in enumerate(results) if not result.done}
    while seen:
        chosen = {number: players[number](result.observation) for number, result in seen.items()}
        for number, outcome in sessions.step(chosen).items():
            shown, action = texts.shown(seen[number]), texts.action(chosen[number])
            problem = call_problem(outcome) if isinstance(outcome, StepResult) else None
            episodes[number].add_turn(shown, action, outcome, problem)
            if isinstance(outcome, StepResult):
                seen[number] = outcome
            if episodes[number].is_over(max_turns):
                del seen[number]
    raise_if_most_failed(episodes)
    return episodes


class _Texts:
    """What is shown and done in an environment, as text: calls of tools where it has nothing else."""

    def __init__(self, sessions: Sessions) -> None:
        self._tools = sessions.tools
        self._actions = ActionText(sessions.action)

    def shown(self, result: StepResult[Any]) -> str:
        return observation_text(result.observation) if self._tools is None else text_of(call_content(result))

    def action(self, action: Any) -> str:
        return self._actions.write(action) if self._tools is None else call_text(*self._tools.call(action))
