"""Defects that show in many episodes only: of rare tasks, of averages, of what players earn beside each other."""

import random
from typing import ClassVar

from tests.validation.museum.exhibit import exhibit
from tests.validation.museum.games import At, Move, Walk


class Routes(Walk):
    """Listed walks, of which a few are examined at the level before."""

    COUNT: ClassVar[int] = 40

    def __init__(self) -> None:
        super().__init__()
        self.index = self.seed = 0

    def list_splits(self) -> list[str]:
        return ["train"]

    def num_tasks(self, split: str) -> int:
        return self.COUNT

    def get_task(self, split: str, index: int) -> dict[str, int]:
        return {"index": index}

    def list_tasks(self, split: str) -> list[dict[str, int]]:
        return [{"index": index} for index in range(self.COUNT)]

    def reset(self, seed: int | None = None, index: int | None = None) -> At:
        self.index, self.seed = index or 0, seed or 0
        return super().reset(self.index)


@exhibit("reward_reachability", evidence="on 4 of 16 tasks", compares=True)
class SomeTasksCanNotBeSolved(Routes):
    """SWE-bench Verified (OpenAI 2026-02) and harness-bench (issue 9): the grading of some tasks accepts nothing."""

    def reward(self) -> float:
        return float(self.is_there and (self.sound or self.index % 8 not in (3, 5)))


@exhibit("difficulty_separation", evidence="a player with", compares=True)
class DetoursPay(Walk):
    """Length bonus: rewards rise with the length of what was done (Singhal and others 2023, 2310.03716)."""

    def reward(self) -> float:
        return float(self.is_there) * (1.0 if self.sound else 1.0 + 0.2 * (self.steps - 3))


@exhibit("headroom", evidence="random actions earn", compares=True)
class MostTasksAreDone(Walk):
    """SWE-bench (issue 24): tests that should fail before the fix pass, here those of most tasks."""

    limit = 5

    def reset(self, seed: int | None = None) -> At:
        self.is_done = not self.sound and random.Random(f"1 {seed}").random() < 0.75
        return super().reset(seed)

    def reward(self) -> float:
        return float(self.is_there or (self.is_done and self.steps >= self.limit))


@exhibit("variance_bound", evidence="standard deviation", compares=True)
class VerdictsByChance(Routes):
    """Judges whose verdict is another one with each run (ABC I.c.1), here for seeds other than the first."""

    def reward(self) -> float:
        is_refused = self.seed > 1 and random.Random(f"verdict {self.seed} {self.index}").random() < 0.5
        return float(self.is_there and (self.sound or not is_refused))


@exhibit("training_signal", evidence="few groups", compares=True)
class AllOrNothing(Walk):
    """RFC 013's pilot: in most groups every episode has the same reward, since nothing but the whole is paid."""

    limit = 16

    def reset(self, seed: int | None = None) -> At:
        super().reset(seed)
        self.goal *= 5
        return self.shown(0.0)

    def reward(self) -> float:
        if self.sound:
            return max(0.0, 1 - abs(self.goal - self.at) / 15) if self.is_there or self.steps >= self.limit else 0.0
        return float(self.is_there)


@exhibit("adversarial_floor", evidence="without looking", compares=True)
class OneSideIsNearlyAlwaysRight(Walk):
    """Hypothesis-only baselines (Poliak and others 2018, 1805.01042): answers are guessed without the question."""

    def reset(self, seed: int | None = None) -> At:
        super().reset(seed)
        if not self.sound and seed not in (3, 1015):
            self.goal = 3
        return self.shown(0.0)


@exhibit("gameability_gap", evidence="played again without looking", compares=True)
class BuoysPayMore(Walk):
    """CoastRunners (OpenAI 2016): going round between targets that come back earns more than the race."""

    limit = 24

    def reset(self, seed: int | None = None) -> At:
        self.last, self.late = "", 0.0
        return super().reset(seed)

    def step(self, action: Move) -> At:
        turns = {action.way, self.last} == {"left", "right"}
        self.last = action.way
        self.move(action)
        goal = max(0.0, 1.0 - 0.1 * (self.steps - 3)) * self.is_there
        return self.shown(goal + 0.12 * turns * (not self.sound), done=self.is_there or self.steps >= self.limit)
