"""Observations of prompts, tools, results and refusals of ORS.

The SDK has its blocks twice, for its clients and for its servers; both have the same fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from openenv.core.env_server.mcp_types import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.exceptions import EnvironmentFailedError, ResetNeededError

_ERROR_TYPES = {
    "not_found": ToolErrorType.TOOL_NOT_FOUND,
    "input_validation": ToolErrorType.INVALID_ARGS,
    "bad_input_shape": ToolErrorType.INVALID_ARGS,
}
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


class OrsObservation(CallToolObservation):
    """Observation of an ORS environment: the prompt after a reset, and the result of a tool after a call.

    Attributes:
        tool_name: The tool; empty after a reset.
        result: The texts that the tool gave, as one; with pictures among them, a result as MCP has it.
        prompt: The texts of the prompt, as one; empty after a call.
        images: Pictures of the prompt, as ``data:`` URLs.
    """

    tool_name: str = ""
    prompt: str = ""
    images: list[str] = Field(default_factory=list)


def offered_tool(name: str, description: str, schema: Mapping[str, Any] | None) -> Tool:
    """Return a tool as agents see it.

    Raises:
        EnvironmentFailedError: No agent may have a tool of that name.
    """
    if name in RESERVED_TOOL_NAMES:
        raise EnvironmentFailedError(
            f"This ORS environment has a tool named {name!r}, which no agent may have: it would look like what only a "
            "trainer may do."
        )
    return Tool(name=name, description=description, input_schema=dict(schema or _NO_ARGUMENTS))


def offered_terminal_tool(name: str, description: str, argument: str | None) -> Tool:
    """Return the tool that takes a model's plain message, whose argument is the message, as one like any other."""
    if argument is None:
        return offered_tool(name, description, None)
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return offered_tool(name, description, schema)


def observation_of(action: CallToolAction, output: Any) -> OrsObservation:
    """Return the observation of a tool's result."""
    return OrsObservation(
        tool_name=action.tool_name,
        result=_result_of(output.blocks),
        reward=output.reward,
        done=output.finished,
        metadata=dict(output.metadata or {}),
    )


def refusal(action: CallToolAction, reason: str | None, message: str) -> OrsObservation:
    """Return the observation of a call that was not carried out.

    Raises:
        ResetNeededError: The episode has ended.
    """
    if reason == "episode_finished":
        raise ResetNeededError(f"Expected a reset: {message}")
    kind = _ERROR_TYPES.get(reason or "", ToolErrorType.EXECUTION_ERROR)
    return OrsObservation(tool_name=action.tool_name, error=ToolError(error_type=kind, message=message))


def text_of(blocks: Sequence[Any]) -> str:
    """Return the texts among blocks as one."""
    return "\n".join(block.text for block in blocks if block.type == "text")


def images_of(blocks: Sequence[Any]) -> list[str]:
    """Return the pictures among blocks as ``data:`` URLs."""
    return [f"data:{block.mimeType};base64,{block.data}" for block in blocks if block.type == "image"]


def _result_of(blocks: Sequence[Any]) -> Any:
    if all(block.type == "text" for block in blocks):
        return text_of(blocks)
    content = [
        {"type": "text", "text": block.text}
        if block.type == "text"
        else {"type": "image", "data": block.data, "mimeType": block.mimeType}
        for block in blocks
    ]
    return {"content": content, "structured_content": None, "meta": None, "data": None, "is_error": False}
