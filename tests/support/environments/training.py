"""A small environment for rollouts: episodes of different lengths, refused actions, and failures on demand."""

from collections.abc import Iterable
from typing import Literal

from openenv import ToolResult, tool
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import IllegalActionError

CRASHING_SEEDS = 1000
"""With the hundred seeds from here the environment fails at the second step."""
ENDLESS_REWARD_SEEDS = 1100
"""With the hundred seeds from here the second reward is infinite."""
FAILING_RESET_SEEDS = 1200
"""With the hundred seeds from here the environment cannot even be reset."""


DONE_AT_RESET_SEEDS = 1300
"""With the hundred seeds from here the episode is over as soon as it has begun."""


class Climb(Action):
    """Take a step on the stairs."""

    move: Literal["up", "wait", "fall asleep"]


class Stairs(Observation):
    """Where one stands."""

    text: str
    position: int


class StairsEnvironment(Environment[Climb, Stairs, State]):
    """Climb a flight of stairs, as many as the seed or the height says. Falling asleep is against the rules."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def __init__(self) -> None:
        super().__init__()
        self._seed = 0
        self._position = 0
        self._steps = 0
        self._height = 0

    def reset(self, seed: int | None = None, height: int | None = None) -> Stairs:
        self._seed, self._position, self._steps = seed or 0, 0, 0
        self._height = height or 1 + self._seed % 4
        if self._is_one_of(FAILING_RESET_SEEDS):
            raise ValueError("these stairs are closed")
        return self._seen()

    def step(self, action: Climb) -> Stairs:
        if action.move == "fall asleep":
            raise IllegalActionError("No sleeping on the stairs.")
        self._steps += 1
        self._position += action.move == "up"
        if self._steps == 2 and self._is_one_of(CRASHING_SEEDS):
            raise ValueError("the stairs broke")
        return self._seen()

    def _seen(self) -> Stairs:
        endless = self._steps == 2 and self._is_one_of(ENDLESS_REWARD_SEEDS)
        reward = float("inf") if endless else 0.25 * self._position
        done = self._position == self._height or self._is_one_of(DONE_AT_RESET_SEEDS)
        text = f"step {'and ' * self._position}of {self._height}"
        return Stairs(text=text, position=self._position, done=done, reward=reward)

    def _is_one_of(self, first: int) -> bool:
        return first <= self._seed < first + 100

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


class Colour(Observation):
    """Which button is to be pressed."""

    text: str


class ButtonsEnvironment(Environment):
    """Press the button that was named. There are tools and nothing else."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def reset(self, seed: int | None = None) -> Colour:
        """Name a button."""
        self._named = ("red", "green")[(seed or 0) % 2]
        return Colour(text=f"Press {self._named}.")

    @tool(terminal=True)
    def press(self, button: Literal["red", "green", "blue", "white"]) -> ToolResult:
        """Press a button.

        Args:
            button: Its colour.
        """
        return ToolResult("pressed", reward=float(button == self._named))


class SecretiveEnvironment(ButtonsEnvironment):
    """The same with its task where no model sees it."""

    def reset(self, seed: int | None = None) -> Observation:  # type: ignore[override]  # as people write it
        """Name a button, out of sight."""
        return Observation(metadata={"task": super().reset(seed).text})


def seeded(seeds: Iterable[int]) -> list[dict[str, int]]:
    """Return a task for each seed."""
    return [{"seed": seed} for seed in seeds]
