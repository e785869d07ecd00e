"""Messages of ORS between clients and servers."""

from typing import Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from openenv.core.wire.types import BaseMessage


class TextBlock(BaseMessage):
    """Text for a model."""

    text: str
    detail: dict[str, Any] | None = None
    type: Literal["text"] = "text"


class ImageBlock(BaseMessage):
    """Picture for a model; ``data`` is base64."""

    data: str
    mimeType: str  # noqa: N815  # as ORS calls it
    detail: dict[str, Any] | None = None
    type: Literal["image"] = "image"


Block = TextBlock | ImageBlock


class UserMessage(BaseMessage):
    """Prompt as the first message of a conversation."""

    role: Literal["user"] = "user"
    blocks: list[Block]
    detail: dict[str, Any] | None = None


class OrsTool(BaseMessage):
    """Tool in a list of tools."""

    name: str
    description: str
    input_schema: dict[str, Any] | None


class ToolList(BaseMessage):
    """List of tools.

    Attributes:
        tools: The tools that a model may call.
        terminal_tool: The tool for a model's plain message; no environment of this package has such a tool.
        supports_score_group: Whether the environment compares the rollouts of a group; none does.
        message_block_types: Types of the blocks of a message.
    """

    tools: list[OrsTool]
    terminal_tool: None = None
    supports_score_group: bool = False
    message_block_types: list[str] = Field(default=["text", "image"])


class CreateRequest(BaseMessage):
    """Request that starts a session's episode.

    Attributes:
        env_name: Name of the environment; by default the served one.
        task_spec: The task.
        split: Instead of ``task_spec``, the split in which the task is listed.
        index: The task's index in the split.
        toolset_name: Set of tools beside the environment's own; this server has none.
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
    """Request that calls a tool.

    Attributes:
        name: Name of the tool.
        input: Its arguments.
        task_id: Id of an earlier call whose answer is requested again.
    """

    name: str
    input: dict[str, JsonValue]
    task_id: str | None = None


class SessionName(BaseMessage):
    """Id of the session that a request changed."""

    sid: str


class ToolOutput(BaseMessage):
    """Result of a tool."""

    blocks: list[Block]
    metadata: dict[str, Any] | None = None
    reward: float | None = None
    finished: bool = False


class CallSucceeded(BaseMessage):
    """Call that was executed."""

    ok: Literal[True] = True
    output: ToolOutput


class CallRefused(BaseMessage):
    """Call that was not executed; the session is unchanged."""

    ok: Literal[False] = False
    error: str
    reason: Literal["not_found", "input_validation", "episode_finished"]
