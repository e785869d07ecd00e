"""What a model is shown of results: text, and pictures behind it."""

import base64
import io
from typing import Annotated, Any

import numpy as np
import pytest
from PIL import Image

from openenv import NDArray, Observation
from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import CallToolObservation, ToolError, ToolErrorType
from openenv.core.schema.reader import pixel_fields
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
    ],
)
def test_pictures_are_blocks_behind_the_text(shown: dict[str, Any]) -> None:
    content = call_content(StepResult(shown))

    assert isinstance(content, list)
    assert content[0] == {"type": "text", "text": "Look."}
    assert content[1]["type"] == "image"
    assert content[1]["image"].size == (20, 16)
    assert content[1]["image"].convert("RGB").getpixel((0, 0)) == (255, 0, 0)


def test_a_tool_s_pictures_are_blocks_too() -> None:
    content = call_content(called(mcp_result({"type": "text", "text": "It:"}, {"type": "image", "data": png()})))

    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["text", "image"]


def test_boards_and_broken_pictures_stay_text() -> None:
    board = [[[0, 1, 2]] * 3] * 3

    for value in (board, "iVBORw0KGgo=", "data:image/png;base64,iVBORw0KGgo=", [png(), "and text"]):
        assert isinstance(call_content(StepResult({"value": value})), str)


class Screen(Observation):
    screen: Annotated[np.ndarray[Any, Any] | None, NDArray("uint8", (None, None, 3), picture=True)] = None
    cells: Annotated[np.ndarray[Any, Any], NDArray("uint8", (None, None, 3))]


@pytest.mark.parametrize("size", [16, 100])
def test_rows_of_numbers_are_a_picture_only_where_the_schema_says_so(size: int) -> None:
    cells = [[[8, 5, 2]] * size] * size  # kind, colour and state of a cell: a map of MiniGrid's
    result = StepResult({"screen": cells, "cells": cells})
    pixels = pixel_fields(Screen.model_json_schema())

    assert isinstance(call_content(result), str)
    content = call_content(result, pixels)
    assert isinstance(content, list)
    text, picture = content
    assert (picture["image"].size, picture["image"].getpixel((0, 0))) == ((size, size), (8, 5, 2))
    assert text["text"].startswith("cells [[[8, 5, 2]")
    assert "screen" not in text["text"]


def test_a_model_s_own_declaration_is_read() -> None:
    array = np.full((16, 20, 3), 7, np.uint8)

    content = call_content(StepResult(Screen(screen=array, cells=array[:1, :1])))
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["text", "image"]
    assert (content[1]["image"].size, content[1]["image"].getpixel((0, 0))) == ((20, 16), (7, 7, 7))
    assert isinstance(call_content(StepResult(Screen(cells=array[:1, :1]))), str)


@pytest.mark.parametrize("value", [None, [], [[]], [[[0, 0, 256]] * 2] * 2, [[[0.5, 0, 0]]], [[[0, 0, 0]], []], "left"])
def test_what_is_declared_as_a_picture_and_is_none_stays_text(value: Any) -> None:
    assert isinstance(call_content(StepResult({"screen": value}), {"screen"}), str)
