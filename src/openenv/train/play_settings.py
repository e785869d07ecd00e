"""What episodes are played with, outside of training."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["PlaySettings"]


class PlaySettings(BaseModel):
    """Which environment is played, by whom and how.

    Example:
        >>> PlaySettings(environment="catch", player="scripted").who
        'scripted player'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: str = Field(description="name of an environment, its folder, PREFIX:ID, or a server's URL")
    player: Literal["scripted", "random"] | None = Field(default=None, description="a player without a model")
    model: str | None = Field(default=None, description="a model's name at base_url, or where it lies")
    base_url: str | None = Field(default=None, description="address of an OpenAI-compatible server")
    tasks: str | None = Field(default=None, description="a split of the environment's tasks, or a file of them")
    form: Literal["tools", "text"] = Field(default="tools", description="actions are calls of tools, or texts")
    system_prompt: str | None = Field(default=None, description="the first message of every conversation")
    max_turns: int = Field(default=32, ge=1, description="actions after which an episode is cut off")
    temperature: float = Field(default=1.0, ge=0, description="of a model's sampling")
    max_tokens: int | None = Field(default=None, ge=1, description="tokens that a model may write in one answer")
    seed: int = Field(default=1, ge=0, description="what tasks without a list and players derive from")

    @property
    def who(self) -> str:
        """The player, in words."""
        return self.model if self.model is not None else f"{self.player} player"

    def decisive(self) -> dict[str, Any]:
        """Return what episodes depend on, as JSON values: all but the address at which the model happens to be."""
        return self.model_dump(mode="json", exclude={"base_url"})

    @model_validator(mode="after")
    def _one_player(self) -> "PlaySettings":
        if (self.player is None) == (self.model is None):
            raise ValueError("expected either a player or a model")
        if self.base_url is not None and self.model is None:
            raise ValueError("an address of a model was given, and no model is named")
        return self
