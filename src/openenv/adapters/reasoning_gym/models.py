"""Action, observation and state of a dataset of reasoning-gym. A client needs no reasoning-gym for them."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

__all__ = ["AnswerAction", "ReasoningObservation", "ReasoningState"]


class AnswerAction(Action):
    """Answer the question."""

    answer: str = Field(description="the answer alone, in the form that the question requires")


class ReasoningObservation(Observation):
    """Question of a dataset; after the answer, the metadata has the dataset's own answer."""

    text: str = Field(default="", description="the question; empty after the answer")


class ReasoningState(State):
    """The task that is played."""

    dataset: str = Field(description="the dataset's name")
    split: str | None = Field(default=None, description="the split that the task is of")
    index: int | None = Field(default=None, description="the task's index in its split")
