"""Parts of a reward that say nothing, or the opposite."""

from typing import Any, ClassVar

from tests.validation.museum.exhibit import Questions, Shown, Text, exhibit, same

from openenv.core.rubrics import Rubric, WeightedSum


class Right(Rubric):
    """Whether the answer is right."""

    def forward(self, action: Text, observation: Any) -> float:
        return float(same(action.answer, observation.gold))


class Short(Rubric):
    """Whether the answer is short."""

    def forward(self, action: Text, observation: Any) -> float:
        return float(0 < len(action.answer.strip()) <= 12 and " " not in action.answer.strip()) * float(
            same(action.answer, observation.gold)
        )


class Graded(Shown):
    """An observation with its reference, for the rubric; it is taken out before the agent sees it."""

    gold: str = ""


class Parts(Questions):
    """Questions whose reward is a weighted sum."""

    broken_part: ClassVar[type[Rubric]] = Right
    questions = tuple((question, gold.split()[0]) for question, gold in Questions.questions)

    def __init__(self) -> None:
        super().__init__()
        style = Short() if self.sound else self.broken_part()
        self.rubric = WeightedSum({"right": Right(), "style": style}, {"right": 0.9, "style": 0.1})

    def step(self, action: Text) -> Shown:
        self._state.step_count += 1
        graded = Graded(text="over", gold=self.gold, done=True)
        graded.reward = self._apply_rubric(action, graded)
        return Shown(text="over", reward=graded.reward, done=True)


class Dead(Rubric):
    """A part that looks at a field that is never there."""

    def forward(self, action: Text, observation: Any) -> float:
        return float(getattr(observation, "style_score", 0.0))


@exhibit("reward_parts", evidence="it is dead")
class DeadPart(Parts):
    """Reward parts that read a field which is never set (OpenEnv's early rubrics; alpamayo-recipes' review)."""

    broken_part = Dead


class Vacuous(Rubric):
    """A part that is full for everything."""

    def forward(self, action: Text, observation: Any) -> float:
        return 1.0


@exhibit("reward_parts", evidence="paid for nothing")
class VacuousPart(Parts):
    """Criteria that any answer meets, such as "is polite" (CAR-bench by BenchJack; HealthBench's negative criteria)."""

    broken_part = Vacuous


class Inverted(Rubric):
    """A part with the wrong sign."""

    def forward(self, action: Text, observation: Any) -> float:
        return -1.0 if same(action.answer, observation.gold) else -0.5


@exhibit("reward_parts", evidence="sign is wrong")
class InvertedPart(Parts):
    """alpamayo-recipes (issue NVlabs 29): a part of the reward has the wrong sign."""

    broken_part = Inverted
