"""``python -m benchmarks.libraries``: environments beside the libraries that they are made from, in one process.

Each pair plays the same episodes: once the library by itself, in the way that its own documents show, and once the
environment, whose ``reset`` and ``step`` are called without a server. They take turns; CPU time of the resets and of
the steps is counted apart, and the least of all turns is shown. TextArena is imported as the environment does it, with
words from a file in place of what ``nltk`` fetches.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import reasoning_gym
import typer
from open_spiel.python import rl_environment
from rich.console import Console
from rich.table import Table

from openenv.adapters.openspiel import OpenSpielAction, OpenSpielEnvironment
from reasoning_gym_env.models import AnswerAction
from reasoning_gym_env.server.reasoning_gym_environment import ReasoningGymEnvironment
from textarena_env.models import TextArenaAction
from textarena_env.server import library
from textarena_env.server.textarena_environment import TextArenaEnvironment

_GUESSES = ("crane", "moist", "bulky", "fight", "pound", "vexed")


class Clock:
    """CPU time of the resets and of the steps of a player's episodes.

    Attributes:
        resets: How many resets there were.
        steps: How many steps there were.
        reset_s: CPU time of all resets.
        step_s: CPU time of all steps.
    """

    def __init__(self) -> None:
        self.resets = self.steps = 0
        self.reset_s = self.step_s = 0.0

    @contextmanager
    def reset(self) -> Iterator[None]:
        """Count a reset."""
        began = time.process_time()
        yield
        self.reset_s += time.process_time() - began
        self.resets += 1

    def step(self, play: Callable[[Any], Any], action: Any) -> Any:
        """Count a step.

        Args:
            play: What is called with the action.
            action: The action.

        Returns:
            What the call returned.
        """
        began = time.process_time()
        result = play(action)
        self.step_s += time.process_time() - began
        self.steps += 1
        return result


class Player(ABC):
    """Plays one episode for each call."""

    @abstractmethod
    def play(self, seed: int, clock: Clock) -> None:
        """Play an episode to its end.

        Args:
            seed: Its seed.
            clock: What counts its time.
        """


class OpenSpielAlone(Player):
    """OpenSpiel's own environment for learners.

    Args:
        game: OpenSpiel's short name of a game.
    """

    def __init__(self, game: str) -> None:
        self._env = rl_environment.Environment(game)

    def play(self, seed: int, clock: Clock) -> None:
        """Let all players move at random."""
        dice = random.Random(seed)
        self._env.seed(seed)
        with clock.reset():
            seen = self._up_to_own_move(self._env.reset(), dice)
        while not seen.last():
            seen = clock.step(partial(self._step, dice), dice.choice(seen.observations["legal_actions"][0]))

    def _step(self, dice: random.Random, action: int) -> Any:
        return self._up_to_own_move(self._env.step([action]), dice)

    def _up_to_own_move(self, seen: Any, dice: random.Random) -> Any:
        while not seen.last() and seen.observations["current_player"] != 0:
            player = seen.observations["current_player"]
            seen = self._env.step([dice.choice(seen.observations["legal_actions"][player])])
        return seen


class OpenSpielPackaged(Player):
    """The environment on OpenSpiel.

    Args:
        game: OpenSpiel's short name of a game.
    """

    def __init__(self, game: str) -> None:
        self._env = OpenSpielEnvironment(game)

    def play(self, seed: int, clock: Clock) -> None:
        """Move at random, against an opponent that does."""
        dice = random.Random(seed)
        with clock.reset():
            seen = self._env.reset(seed=seed)
        while not seen.done:
            seen = clock.step(self._env.step, OpenSpielAction(action_id=dice.choice(seen.legal_actions)))


class TextArenaAlone(Player):
    """TextArena's Wordle."""

    def __init__(self) -> None:
        spec = library.registry()["Wordle-v0"]
        self._made, self._options = library.game_class(spec.entry_point), spec.kwargs

    def play(self, seed: int, clock: Clock) -> None:
        """Guess the same words in each episode."""
        with clock.reset():
            env = self._made(**self._options)
            env.reset(num_players=1, seed=seed)
            env.get_observation()
        for guess in _GUESSES:
            if clock.step(partial(self._step, env), f"[{guess}]"):
                break

    @staticmethod
    def _step(env: Any, text: str) -> bool:
        done, _ = env.step(action=text)
        if not done:
            env.get_observation()
        return bool(done)


class TextArenaPackaged(Player):
    """The environment on TextArena."""

    def __init__(self) -> None:
        self._env = TextArenaEnvironment()

    def play(self, seed: int, clock: Clock) -> None:
        """Guess the same words in each episode."""
        with clock.reset():
            self._env.reset(seed=seed, env_id="Wordle-v0")
        for guess in _GUESSES:
            if clock.step(self._env.step, TextArenaAction(message=f"[{guess}]")).done:
                break


class ReasoningAlone(Player):
    """A dataset of reasoning-gym."""

    def __init__(self) -> None:
        self._dataset = reasoning_gym.create_dataset("chain_sum", seed=0, size=10_000)

    def play(self, seed: int, clock: Clock) -> None:
        """Answer a question wrongly."""
        with clock.reset():
            question = self._dataset[seed]
        clock.step(partial(self._dataset.score_answer, entry=question), "7")


class ReasoningPackaged(Player):
    """The environment on reasoning-gym."""

    def __init__(self) -> None:
        self._env = ReasoningGymEnvironment("chain_sum", {"seed": 0, "size": 10_000})

    def play(self, seed: int, clock: Clock) -> None:
        """Answer a question wrongly."""
        with clock.reset():
            self._env.reset(index=seed)
        clock.step(self._env.step, AnswerAction(answer="7"))


PAIRS: dict[str, tuple[Callable[[], Player], Callable[[], Player]]] = {
    **{
        f"OpenSpiel, {game}": (partial(OpenSpielAlone, game), partial(OpenSpielPackaged, game))
        for game in ("catch", "tic_tac_toe", "blackjack", "connect_four")
    },
    "TextArena, Wordle": (TextArenaAlone, TextArenaPackaged),
    "reasoning-gym, chain_sum": (ReasoningAlone, ReasoningPackaged),
}
"""By name, the player of the library alone and that of the environment."""


def main(
    turns: Annotated[int, typer.Option(min=1, help="How often each plays its episodes.")] = 10,
    episodes: Annotated[int, typer.Option(min=1, max=5_000, help="Episodes in a turn.")] = 40,
) -> None:
    """Print what a reset and a step of each environment cost, beside those of its library."""
    table = Table("environment", "library: reset, µs", "step, µs", "environment: reset, µs", "step, µs", "step, times")
    for name, makers in PAIRS.items():
        players = [make() for make in makers]
        taken = [[_turn(player, turn, episodes) for player in players] for turn in range(turns)]
        (alone_reset, alone_step), (reset, step) = (
            map(min, zip(*each, strict=True)) for each in zip(*taken, strict=True)
        )
        ours = f"{reset:,.0f}", f"{step:,.1f}", f"{step / alone_step:.1f}"
        table.add_row(name, f"{alone_reset:,.0f}", f"{alone_step:,.1f}", *ours)
    Console(width=120).print(table)


def _turn(player: Player, turn: int, episodes: int) -> tuple[float, float]:
    """Return the µs of a reset and of a step."""
    clock = Clock()
    for seed in range(turn * episodes, (turn + 1) * episodes):
        player.play(seed, clock)
    return clock.reset_s / clock.resets * 1e6, clock.step_s / clock.steps * 1e6


if __name__ == "__main__":
    typer.run(main)
