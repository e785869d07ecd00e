"""Settings of one of several environments of a run, and of stages of its resets."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["CurriculumStage", "EnvironmentSettings", "number_in"]


class CurriculumStage(BaseModel):
    """Optimiser steps whose episodes are other ones, mostly easier.

    Example:
        >>> CurriculumStage(steps=50, reset={"difficulty": "easy"}).steps
        50
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(ge=1, description="how many optimiser steps it lasts")
    reset: dict[str, Any] = Field(description="what resets are passed in it, over the run's own reset")


class EnvironmentSettings(BaseModel):
    """One of several environments of a run; what it leaves out is as the run has it.

    Example:
        >>> EnvironmentSettings(environment="catch").share
        1
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: str = Field(description="name of an environment, its folder, or a server's URL")
    share: int = Field(default=1, ge=1, description="its groups of episodes, in proportion to the others' shares")
    tasks: int | str | None = Field(default=None, description="a number of seeds, a split or a file to train on")
    eval_tasks: str | None = Field(default=None, description="a split or a file for the comparison before and after")
    reset: dict[str, Any] = Field(default_factory=dict, description="what its resets are passed beside the seed")
    curriculum: list[CurriculumStage] = Field(
        default_factory=list, description="stages of the training before its own resets"
    )
    max_turns: int | None = Field(default=None, ge=1, description="actions after which its episodes are cut off")
    fallback: str | None = Field(default=None, description="its action that an illegal text counts as")

    @field_validator("tasks")
    @classmethod
    def _tasks_are_some(cls, tasks: int | str | None) -> int | str | None:
        return number_in(tasks, "expected at least one task to train on")


def number_in(given: int | str | None, expected: str) -> int | str | None:
    """Read what is a number or a name; a command line gives both as texts."""
    number = int(given) if isinstance(given, str) and given.isdecimal() else given
    if isinstance(number, int) and number < 1:
        raise ValueError(expected)
    return number
