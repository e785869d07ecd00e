"""Environments with rubrics, which another process can import."""

import sys
import threading
from typing import Any

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.rubrics import ExponentialDiscountingTrajectoryRubric, Rubric, WeightedSum

GOAL = 4
released = threading.Event()
"""Lets the component go on that does not end."""


class Walk(Action):
    """Walk some steps."""

    length: int = 1


class ShortWalk(Walk):
    """Walk few steps: what a random player may choose from."""

    length: int = Field(ge=1, le=3)


class Spot(Observation):
    """Where one stands."""

    text: str = ""
    total: int = 0


class Stride(Rubric):
    """Prefers long strides; fails at some lengths."""

    def forward(self, action: Walk, observation: Spot) -> Any:
        match action.length:
            case -1:
                raise ValueError("backwards")
            case -2:
                return float("nan")
            case -3:
                return "far"
            case -4:
                released.wait(60)
            case -5:
                sys.exit(3)
        return action.length / GOAL


class AwaitedStride(Stride):
    """The same, awaited."""

    async def forward(self, action: Walk, observation: Spot) -> Any:
        return super().forward(action, observation)


class Arrival(Rubric):
    """Whether the goal is reached."""

    def forward(self, action: Walk, observation: Spot) -> float:
        return float(observation.total >= GOAL)

    def evidence(self) -> dict[str, str]:
        return {"secret": "the solution"}


class Journey(ExponentialDiscountingTrajectoryRubric):
    """Scores the number of steps at the end."""

    def __init__(self) -> None:
        super().__init__(gamma=0.5)
        self.stride = Stride()

    def forward(self, action: Any, observation: Any) -> Any:
        self.stride(action, observation)
        return super().forward(action, observation)

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return float(len(trajectory))


class GradedWalk(Environment[Walk, Spot, State]):
    """Walk to a goal: long strides and the arrival are rewarded."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__(rubric=self.make_rubric())
        self._total = 0

    @staticmethod
    def make_rubric() -> Rubric:
        return WeightedSum({"stride": Stride(), "arrival": Arrival()}, {"stride": 0.25, "arrival": 0.75})

    def reset(self, seed: int | None = None) -> Spot:
        self._reset_rubric()
        self._total = 0
        return Spot(text="start")

    def step(self, action: Walk) -> Spot:
        self._total += max(0, action.length)
        spot = Spot(text=f"{self._total} of {GOAL}", total=self._total, done=self._total >= GOAL)
        spot.reward = self._apply_rubric(action, spot)
        return spot

    @property
    def state(self) -> State:
        return State()


class InlineGradedWalk(GradedWalk):
    """Runs on the event loop of its process."""

    BLOCKING = False


class AwaitedGradedWalk(GradedWalk):
    """Has components that are awaited together."""

    @staticmethod
    def make_rubric() -> Rubric:
        return WeightedSum({"stride": AwaitedStride(), "arrival": Arrival()}, {"stride": 0.25, "arrival": 0.75})

    async def step_async(self, action: Walk) -> Spot:
        self._total += max(0, action.length)
        spot = Spot(text="", total=self._total, done=self._total >= GOAL)
        spot.reward = await self._apply_rubric_async(action, spot)
        return spot


class GradedJourney(GradedWalk):
    """Is rewarded at the end; sessions are copied."""

    @staticmethod
    def make_rubric() -> Rubric:
        return Journey()


class MappedJourney(GradedJourney):
    """Sessions go on from snapshots."""

    def snapshot(self) -> Any:
        return {"total": self._total}

    def restore(self, snapshot: Any) -> None:
        self._total = snapshot["total"]
