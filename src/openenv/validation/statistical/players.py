"""Players that are worse than the scripted one: with a share of random actions, or without looking."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openenv.core.exceptions import OpenEnvError
from openenv.train.agents.players import RandomToolPlayer
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.validation.semantic.episodes import Action, Player
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.trials import FaultError, within

Pool = Mapping[str, Mapping[str, Sequence[Any]]]
"""Values that the scripted player gave to the fields of each tool, in any task."""


class DrawnPlayer:
    """Random player whose texts and numbers are drawn from those of the scripted player, where there is a pool.

    A text of random letters would be refused, or wrong for its form alone.
    """

    def __init__(self, tools: EnvironmentTools, pool: Pool, seed: int) -> None:
        self._tools = tools
        self._pool = pool
        self._random = random.Random(seed)  # noqa: S311  # a game, not a secret
        self._at_random = RandomToolPlayer(tools, self._random.randrange(2**30))

    def __call__(self, observation: Any) -> Any:
        """Draw an action."""
        name = self._random.choice(self._tools.names)
        if not self._pool or name not in self._pool:
            return self._at_random(observation)
        drawn = {field: self._random.choice(values) for field, values in self._pool[name].items()}
        return self._tools.action(name, drawn)


class WeakPlayer:
    """Scripted player of which a share of the actions is drawn at random; once it fails for that, all of them are."""

    def __init__(self, scripted: Player, at_random: Player, share: float, seed: int, answer_s: float) -> None:
        self._scripted = scripted
        self._at_random = at_random
        self._share = share
        self._random = random.Random(seed)  # noqa: S311  # a game, not a secret
        self._answer_s = answer_s
        # Set once the scripted player has failed, as it may where it did not choose what was done.
        self._is_lost = False

    def __call__(self, observation: Any) -> Any:
        """Choose an action."""
        if not self._is_lost:
            try:
                action = within(self._answer_s, self._scripted, observation)  # which keeps count of what it was shown
            except (OpenEnvError, FaultError, TimeoutError):
                self._is_lost = True
            else:
                if self._random.random() >= self._share:
                    return action
        return self._at_random(observation)


@dataclass(frozen=True)
class WeakPlayers:
    """Maker of weak players of an environment.

    Attributes:
        graded: The environment.
        make_player: Makes the scripted player of a seed.
        pool: Values that random actions are drawn from.
        share: Share of the actions that are drawn at random.
        attempt: Number of the attempt, by which the draws differ.
    """

    graded: GradedEnvironment
    make_player: Callable[[int], Player]
    pool: Pool
    share: float
    attempt: int

    def __call__(self, seed: int) -> Player:
        """Make the player of a seed."""
        own = seed + 100_003 * self.attempt
        at_random = DrawnPlayer(self.graded.player_tools, self.pool, own)
        return WeakPlayer(self.make_player(seed), at_random, self.share, own, self.graded.limits.answer_s)


class BlindPlayer:
    """Player of given actions, whatever it is shown; the last one is repeated."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = actions
        self._count = 0

    def __call__(self, observation: Any) -> Action:
        """Return the next action."""
        action = self._actions[min(self._count, len(self._actions) - 1)]
        self._count += 1
        return dict(action)
