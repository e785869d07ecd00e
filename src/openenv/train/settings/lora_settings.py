"""Settings of low-rank additions to a model."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from openenv.core.variables import Option

__all__ = ["LoraSettings"]


class LoraSettings(BaseModel):
    """Learn small additions to a model's matrices instead of the matrices (https://arxiv.org/abs/2106.09685).

    The memory of the optimiser is a fraction of what it would be. What a run leaves is a whole model again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: Annotated[int, Option(("--lora-rank",), heading="Learning")] = Field(
        default=16, ge=1, description="rank of an addition"
    )
    alpha: Annotated[int, Option(("--lora-alpha",), heading="Learning")] = Field(
        default=32, ge=1, description="additions are scaled by this, divided by the rank"
    )
    dropout: Annotated[float, Option(("--lora-dropout",), heading="Learning")] = Field(
        default=0.0, ge=0, lt=1, description="share of an addition's inputs that is left out"
    )
    target_modules: Literal["all-linear"] | list[str] = Field(
        default="all-linear", description="which matrices are added to, by the ends of their names"
    )
