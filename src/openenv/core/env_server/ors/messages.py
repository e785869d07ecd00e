"""What a client of ORS and a server say to each other."""

from typing import Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from openenv.core.env_server.types import BaseMessage


class TextBlock(BaseMessage):
    """A text for a model."""

    text: str
    detail: dict[str, Any] | None = None
    type: Literal["text"] = "text"


class ImageBlock(BaseMessage):
    """A picture for a model; ``data`` is base64."""

    data: str
    mimeType: str  # noqa: N815  # as ORS calls it
    detail: dict[str, Any] | None = None
    type: Literal["image"] = "image"


Block = TextBlock | ImageBlock


class UserMessage(BaseMessage):
    """A prompt as the first message of a conversation."""

    role: Literal["user"] = "user"
    blocks: list[Block]
    detail: dict[str, Any] | None = None


class OrsTool(BaseMessage):
    """A tool as it is listed."""

    name: str
    description: str
    input_schema: dict[str, Any] | None


class ToolList(BaseMessage):
    """The tools that there are.

    Attributes:
        tools: Those that a model may call.
        terminal_tool: The one that takes a model's plain message; no environment of ours has such a tool.
        supports_score_group: Whether the environment compares the rollouts of a group; none does.
        message_block_types: What a message may consist of.
    """

    tools: list[OrsTool]
    terminal_tool: None = None
    supports_score_group: bool = False
    message_block_types: list[str] = Field(default=["text", "image"])


class CreateRequest(BaseMessage):
    """Start a session's episode.

    Attributes:
        env_name: Name of the environment; by default the one that there is.
        task_spec: The task.
        split: In its place, the split in which the task is listed,
        index: and where in it.
        toolset_name: A set of tools beside the environment's own; this server has none.
    """

    env_name: str | None = None
    task_spec: dict[str, JsonValue] | None = None
    split: str | None = None
    index: int | None = None
    toolset_name: str | None = None

    @model_validator(mode="after")
    def _names_one_task(self) -> Self:
        listed = (self.split is not None) + (self.index is not None)
        if listed == 1 or (listed == 2) == (self.task_spec is not None):
            raise ValueError("Provide either task_spec or both split and index, not both/neither")
        return self


class CallRequest(BaseMessage):
    """Call a tool.

    Attributes:
        name: Name of the tool.
        input: Its arguments.
        task_id: The call that was made before, whose answer is asked for again.
    """

    name: str
    input: dict[str, JsonValue]
    task_id: str | None = None


class SessionName(BaseMessage):
    """The session that something was done with."""

    sid: str


class ToolOutput(BaseMessage):
    """What a tool gave."""

    blocks: list[Block]
    metadata: dict[str, Any] | None = None
    reward: float | None = None
    finished: bool = False


class CallSucceeded(BaseMessage):
    """A call that was carried out."""

    ok: Literal[True] = True
    output: ToolOutput


class CallRefused(BaseMessage):
    """A call that was not carried out; the session is as it was."""

    ok: Literal[False] = False
    error: str
    reason: Literal["not_found", "input_validation", "episode_finished"]
