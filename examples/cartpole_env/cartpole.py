"""Gymnasium's CartPole-v1 as an environment to serve."""

import math
from typing import Annotated, Any, ClassVar, Literal

import gymnasium
from pydantic import Field

from openenv import Action, Environment, Observation, State, create_app

TRACK = 4.8
SWING = 24 * 2 * math.pi / 360

Position = Annotated[float, Field(ge=-TRACK, le=TRACK, description="Of the cart, in metres")]
Angle = Annotated[float, Field(ge=-SWING, le=SWING, description="Of the pole, in radians")]
Velocity = float


class Push(Action):
    """Push the cart."""

    direction: Literal["left", "right"]


class CartState(Observation):
    """Where the cart and the pole are, and how fast they move."""

    cart_and_pole: tuple[Position, Velocity, Angle, Velocity]


class CartPoleEnvironment(Environment[Push, CartState, State]):
    """Keep the pole upright: a point for each step, at most 500 of them."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    DEFAULT_MAX_SESSIONS: ClassVar[int] = 64
    BLOCKING: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._env = gymnasium.make("CartPole-v1", disable_env_checker=True)
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> tuple[CartState, dict[str, Any]]:
        """Stand the pole up. Gymnasium's own options, ``low`` and ``high``, say how far from upright it may be."""
        self._state = State(episode_id=episode_id)
        numbers, info = self._env.reset(seed=seed, options=options or None)
        return CartState(cart_and_pole=numbers.tolist()), info

    def step(self, action: Push) -> tuple[CartState, float, bool, bool, dict[str, Any]]:
        """Push once; returns Gymnasium's five values."""
        self._state.step_count += 1
        numbers, reward, terminated, truncated, info = self._env.step(int(action.direction == "right"))
        return CartState(cart_and_pole=numbers.tolist()), float(reward), terminated, truncated, info

    @property
    def state(self) -> State:
        """The episode's name and its steps so far."""
        return self._state

    def close(self) -> None:
        """Close Gymnasium's environment."""
        self._env.close()


app = create_app(CartPoleEnvironment, env_name="cartpole_env")
