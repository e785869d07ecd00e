"""What a model is shown of results: text, and pictures behind it."""

import base64
import io
from typing import Any

import pytest
from PIL import Image

from openenv import Observation
from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import CallToolObservation, ToolError, ToolErrorType
from openenv.train.tools.contents import call_content, call_problem


def png(size: tuple[int, int] = (20, 16)) -> str:
    written = io.BytesIO()
    Image.new("RGB", size, (255, 0, 0)).save(written, "PNG")
    return base64.b64encode(written.getvalue()).decode()


def called(result: Any, error: ToolError | None = None) -> StepResult[Any]:
    return StepResult(CallToolObservation(tool_name="look", result=result, error=error))


def mcp_result(*content: dict[str, Any]) -> dict[str, Any]:
    return {"content": list(content), "structured_content": None, "data": None, "is_error": False}


def test_text_is_shown_as_observations_are() -> None:
    assert call_content(StepResult({"ball": 3, "legal": ["left"], "done": False})) == "ball 3\nlegal left"
    assert call_content(StepResult({"text": "No.", "more": 1})) == "No."
    assert call_content(called("done")) == "done"
    assert call_content(called({"a": [1, None]})) == '{"a":[1,null]}'
    assert call_content(called(mcp_result({"type": "text", "text": "5"}))) == "5"
    assert call_content(StepResult({"tool_name": "", "result": None, "error": None, "prompt": "Win."})) == "Win."
    assert call_content(StepResult(Observation())) == ""


def test_an_error_of_a_tool_is_shown_and_counts_as_a_problem() -> None:
    error = ToolError(error_type=ToolErrorType.INVALID_ARGS, message="path: Field required")

    assert call_content(called(None, error)) == "path: Field required"
    assert call_problem(called(None, error)) == "path: Field required"
    assert call_problem(called("fine")) is None
    assert call_problem(StepResult({"error": "a field of the environment's own"})) is None


@pytest.mark.parametrize(
    "shown",
    [
        {"text": "Look.", "picture": f"data:image/png;base64,{png()}"},
        {"text": "Look.", "images": [png()]},
        {"text": "Look.", "picture": {"media_type": "image/png", "content": png()}},
        {"text": "Look.", "screenshot": [[[255, 0, 0]] * 80] * 64},
    ],
)
def test_pictures_are_blocks_behind_the_text(shown: dict[str, Any]) -> None:
    content = call_content(StepResult(shown))

    assert isinstance(content, list)
    assert content[0] == {"type": "text", "text": "Look."}
    assert content[1]["type"] == "image"
    assert content[1]["image"].size in ((20, 16), (80, 64))
    assert content[1]["image"].convert("RGB").getpixel((0, 0)) == (255, 0, 0)


def test_a_tool_s_pictures_are_blocks_too() -> None:
    content = call_content(called(mcp_result({"type": "text", "text": "It:"}, {"type": "image", "data": png()})))

    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["text", "image"]


def test_boards_and_broken_pictures_stay_text() -> None:
    board = [[[0, 1, 2]] * 3] * 3
    cells = [[[8, 5, 2]] * 25] * 25  # kind, colour and state: a map of MiniGrid's
    rows = [[[0.5, 0, 0]] * 80] * 64

    for value in (board, cells, rows, "iVBORw0KGgo=", "data:image/png;base64,iVBORw0KGgo=", [png(), "and text"]):
        assert isinstance(call_content(StepResult({"value": value})), str)
