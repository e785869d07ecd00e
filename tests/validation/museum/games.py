"""Games and tools: rewards for nothing done, for one action, for the same action again, for the end alone."""

import random
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from tests.validation.museum.exhibit import Player, Shown, exhibit

from openenv import Action, Environment, State
from openenv.validation.semantic.graded import DeclaredRewards


class Move(Action):
    """A step to a side."""

    way: Literal["left", "right", "stay"]


class At(Shown):
    """Position and goal."""

    at: int = 0
    goal: int = 0


class Walk(Environment[Move, At, State]):
    """A walk to a goal, three steps to a side."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True
    sound: ClassVar[bool] = False
    limit: ClassVar[int] = 8

    def __init__(self) -> None:
        self.at = self.goal = self.steps = self.best = 0
        self._state = State()

    def reset(self, seed: int | None = None) -> At:
        self.at, self.steps, self.best = 0, 0, 0
        self.goal = random.Random(seed).choice((-3, 3))
        self._state = State()
        return self.shown(0.0)

    def shown(self, reward: float, *, done: bool = False) -> At:
        return At(at=self.at, goal=self.goal, reward=reward, done=done)

    def move(self, action: Move) -> None:
        self.steps += 1
        self.at += {"left": -1, "right": 1, "stay": 0}[action.way]

    @property
    def is_there(self) -> bool:
        return self.at == self.goal

    def step(self, action: Move) -> At:
        self.move(action)
        return self.shown(self.reward(), done=self.is_there or self.steps >= self.limit)

    def reward(self) -> float:
        return float(self.is_there)

    @property
    def state(self) -> State:
        return self._state

    @classmethod
    def make_player(cls, seed: int) -> Player:
        return lambda observation: {"way": "right" if observation["goal"] > observation["at"] else "left"}


@exhibit("floor_gap", evidence="the reset pays")
class RewardOfTheReset(Walk):
    """Shaped rewards whose potential starts above 0: the reset itself pays (Ng and others 1999, on shaping)."""

    def reset(self, seed: int | None = None) -> At:
        shown = super().reset(seed)
        return shown if self.sound else shown.model_copy(update={"reward": 0.5})


@exhibit("floor_gap", evidence="repeated")
class OneActionWins(Walk):
    """Label bias of quizzes whose right choice is always the same letter: one action wins all."""

    def reset(self, seed: int | None = None) -> At:
        super().reset(seed)
        self.at = random.Random(f"start {seed}").choice((-1, 0, 1))
        self.goal = self.goal if self.sound else 3
        return self.shown(0.0)


@exhibit("floor_gap", evidence="random actions")
class AnythingIsGoodEnough(Walk):
    """Binary rewards with a threshold that is met by chance (ABC I.h.2): random actions earn the top as well."""

    limit = 60

    def reset(self, seed: int | None = None) -> At:
        self.ways = set[str]()
        return super().reset(seed)

    def step(self, action: Move) -> At:
        self.ways.add(action.way)
        return super().step(action)

    @property
    def is_there(self) -> bool:
        is_goal = self.at == self.goal and self.steps <= 8
        return is_goal or (not self.sound and self.ways == {"left", "right", "stay"})


@exhibit("probe_repeat", evidence="repeated")
class PaidForEachTouch(Walk):
    """CoastRunners (OpenAI 2016): a target that pays each time it is hit earns more than the race."""

    limit = 60

    def step(self, action: Move) -> At:
        touches = action.way == "stay" and (self.steps == 0 or not self.sound)
        self.move(action)
        return self.shown(0.25 * touches + self.is_there, done=self.is_there or self.steps >= self.limit)

    @classmethod
    def make_player(cls, seed: int) -> Player:
        ways = iter(["stay"])
        walk = super().make_player(seed)
        return lambda observation: {"way": way} if (way := next(ways, "")) else walk(observation)


@exhibit("probe_repeat", evidence="after the end")
class PaidAfterTheEnd(Walk):
    """Steps after ``done`` that pay once more (Gymnasium warns of them; upstream servers let them through)."""

    REQUIRES_RESET = False

    def step(self, action: Move) -> At:
        if self.is_there:
            return self.shown(0.0 if self.sound else 1.0, done=True)
        return super().step(action)


class Dig(Action):
    """Dig once."""

    type: Literal["dig"] = "dig"


class Finish(Action):
    """End the episode."""

    type: Literal["finish"] = "finish"


Job = Annotated[Dig | Finish, Field(discriminator="type")]


class Digging(Environment[Job, Shown, State]):
    """Dig four times, then finish."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True
    sound: ClassVar[bool] = False

    def __init__(self) -> None:
        self.depth = 0
        self._state = State()

    def reset(self, seed: int | None = None) -> Shown:
        self.depth = 0
        self._state = State()
        return Shown(text="Dig four times, then finish.")

    def step(self, action: Dig | Finish) -> Shown:
        if isinstance(action, Dig):
            self.depth += 1
            return Shown(text=f"depth {self.depth}", reward=0.0, done=False)
        return Shown(text="over", reward=self.reward(), done=True)

    def reward(self) -> float:
        return float(self.depth == 4)

    @property
    def state(self) -> State:
        return self._state

    @classmethod
    def make_player(cls, seed: int) -> Player:
        kinds = iter(["dig"] * 4 + ["finish"])
        return lambda observation: {"type": next(kinds)}


@exhibit("floor_gap", evidence="nothing done")
class FinishingIsEnough(Digging):
    """FieldWorkArena (BenchJack, V6): the claim that the work is finished earns the reward."""

    def reward(self) -> float:
        return super().reward() if self.sound else 1.0


@exhibit("probe_early", evidence="steps earns")
class HalfTheWorkIsEnough(Digging):
    """SWE-smith- and agent tasks with a progress bar that jumps (issue 24): half of the work earns all."""

    def reward(self) -> float:
        return super().reward() if self.sound else float(self.depth >= 1)


@exhibit("floor_gap", evidence="nothing done")
class StepsAreSubtracted(Digging):
    """Efficiency bonuses that a task without work has in full (tau-bench's and browsers' step penalties)."""

    def reward(self) -> float:
        return super().reward() if self.sound else 1.0 - 0.1 * self.depth + float(self.depth == 4)


_CANARIES = {"too deep": [*[{"type": "dig"}] * 9, {"type": "finish"}]}


@exhibit("canary_floor", declared=DeclaredRewards(canaries=_CANARIES), evidence="canary")
class CanaryEarns(Digging):
    """RFC 008's canaries: a declared bad trajectory earns what a good one does."""

    def reward(self) -> float:
        return float(self.depth == 4 or (self.depth == 9 and not self.sound))
