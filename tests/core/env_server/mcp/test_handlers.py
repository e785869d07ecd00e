"""What an agent finds over MCP: prompts, resources, errors."""

import base64
from functools import partial
from typing import Annotated, Any, cast

import pytest
from mcp.shared.exceptions import McpError
from numpy import array
from pydantic import AnyUrl, BaseModel, model_serializer
from pydantic_core import to_json
from tests.conftest import Serve
from tests.support.environments.common import CounterEnvironment, Gate
from tests.support.mcp_agents import Notes, NotesEnvironment, agent, resource, run, text_of
from tests.support.servers import RunningServer

from openenv import Action, Environment, NDArray, Observation, State, tool
from openenv.core.env_server.pictures import Picture, picture_of, png_of
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.core.environment_types import environment_types

NOTES = environment_types(NotesEnvironment)


class Described(CounterEnvironment):
    SHOWS_STATE = True

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="c", description="d", readme_content="# Counting")


@pytest.fixture
def notes(serve: Serve, gate: Gate) -> RunningServer:
    return serve(partial(Notes, gate), NOTES.action, NOTES.observation)


def test_the_task(notes: RunningServer) -> None:
    async def play() -> tuple[list[str], str, str]:
        async with agent(f"{notes.url}/mcp?seed=3") as session:
            prompts = [prompt.name for prompt in (await session.list_prompts()).prompts]
            content = (await session.get_prompt("task")).messages[0].content
            return prompts, content.text, await resource(session, "openenv://task")  # type: ignore[union-attr]

    prompts, shown, read = run(play())
    assert prompts == ["task"]
    assert shown == read
    assert shown.startswith('{"text":"Write a note.","task":{"seed":3}}\n\nAct with these tools: write, read, count')


@pytest.mark.parametrize("mode", ["simulation", "production"])
def test_the_resources(serve: Serve, mode: str) -> None:
    server = serve(Described, mode=mode)

    async def play() -> dict[str, str]:
        async with agent(f"{server.url}/mcp") as session:
            assert (await session.list_resource_templates()).resourceTemplates == []
            listed = [str(one.uri) for one in (await session.list_resources()).resources]
            with pytest.raises(McpError, match="There is no resource"):
                await resource(session, "openenv://secrets")
            if mode == "production":
                with pytest.raises(McpError, match="There is no resource"):
                    await resource(session, "openenv://state")
            await session.call_tool("add", {"amount": 2})
            return {uri: await resource(session, uri) for uri in listed}

    found = run(play())
    assert found.pop("openenv://task") == '{"total":0}\n\nAct with these tools: add.'
    assert found.pop("openenv://readme") == "# Counting"
    assert found == ({} if mode == "production" else {"openenv://state": '{"episode_id":null,"step_count":1}'})


def test_no_state_is_shown_to_agents_unless_the_author_says_so(serve: Serve) -> None:
    server = serve(CounterEnvironment)

    async def play() -> list[str]:
        async with agent(f"{server.url}/mcp") as session:
            with pytest.raises(McpError, match="There is no resource"):
                await resource(session, "openenv://state")
            return [str(one.uri) for one in (await session.list_resources()).resources]

    assert "openenv://state" not in run(play())


PIXELS = [[[row, column, 0] for column in range(9)] for row in range(8)]
CELLS = [[[8, 5, 2]] * 9] * 8


class Painted(Observation):
    """What the painter shows."""

    text: str = "a view"
    view: Picture | None = None
    screen: Annotated[Any, NDArray("uint8", (8, 9, 3), picture=True)] = array(PIXELS, "uint8")
    cells: list[list[list[int]]] = CELLS


class Brush(Action):
    """Paint."""

    colour: str


class Painter(Environment[Brush, Painted, State]):
    """Shows pictures, and has tools that give some."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None) -> Painted:
        return Painted(view=picture_of(png_of(array(PIXELS, "uint8"))))

    def step(self, action: Brush) -> Painted:
        return Painted(text=action.colour, view=picture_of(png_of(array(PIXELS, "uint8"))), reward=0.5)

    @property
    def state(self) -> State:
        return State()

    @tool
    def screenshot(self) -> bytes:
        """Give a file of PNG."""
        return png_of(array(PIXELS, "uint8"))

    @tool
    def album(self) -> list[Any]:
        """Give a text and an array of pixels."""
        return ["two", array(PIXELS, "uint8")]

    @tool
    def archive(self) -> bytes:
        """Give bytes that are nothing that can be seen."""
        return b"PK\x03\x04\xff"


@pytest.mark.parametrize("isolation", [{}, {"isolation": "process"}], ids=["here", "in a process"])
def test_pictures_and_bytes_arrive_as_such(serve: Serve, isolation: dict[str, Any]) -> None:
    server = serve(Painter, Brush, Painted, **isolation)

    async def play() -> tuple[list[Any], Any, list[Any]]:
        async with agent(f"{server.url}/mcp") as session:
            task = [message.content for message in (await session.get_prompt("task")).messages]
            read = (await session.read_resource(AnyUrl("openenv://task"))).contents
            calls = [("screenshot", {}), ("album", {}), ("archive", {}), ("brush", {"colour": "red"})]
            return task, read, [await session.call_tool(name, arguments) for name, arguments in calls]

    task, read, (screenshot, album, archive, brush) = run(play())
    png = base64.b64encode(png_of(array(PIXELS, "uint8"))).decode()
    image = ("image", "image/png", png)

    assert [block.type for block in task] == ["text", "image", "image"]
    seen = {"text": "a view", "view": "(image/png 1)", "screen": "(image/png 2)", "cells": CELLS}
    assert task[0].text.startswith(f"{to_json(seen).decode()}\n\nAct with these tools: ")
    files = [(one.mimeType, getattr(one, "blob", None)) for one in read]
    assert files == [("text/plain", None), ("image/png", png), ("image/png", png)]
    assert [(block.type, block.mimeType, block.data) for block in screenshot.content] == [image]
    assert album.content[0].text == '["two","(image/png 1)"]'
    assert [(block.type, block.mimeType, block.data) for block in album.content[1:]] == [image]
    assert archive.content[-1].resource.blob == base64.b64encode(b"PK\x03\x04\xff").decode()
    assert brush.structuredContent == {**seen, "text": "red", "done": False}
    assert [(block.type, block.mimeType, block.data) for block in brush.content[1:]] == [image, image]
    assert brush.meta == {"openenv/reward": 0.5, "openenv/done": False}


def test_an_unknown_prompt(notes: RunningServer) -> None:
    async def play() -> McpError:
        async with agent(f"{notes.url}/mcp") as session:
            with pytest.raises(McpError) as refused:
                await session.get_prompt("other")
            return refused.value

    assert run(play()).error.code == -32602


def test_the_end_of_an_episode(notes: RunningServer) -> None:
    async def play() -> list[Any]:
        async with agent(f"{notes.url}/mcp") as session:
            return [await session.call_tool("submit", {}), await session.call_tool("count", {})]

    end, after = run(play())
    assert not end.isError
    assert [block.text for block in end.content] == ["handed in", "The episode has ended."]
    assert end.meta == {"openenv/reward": 1.0, "openenv/done": True}
    assert after.isError
    assert text_of(after) == "The episode has ended. No tool can be called any more."


def test_a_tool_that_fails_leaves_the_episode_going(notes: RunningServer) -> None:
    async def play() -> list[Any]:
        async with agent(f"{notes.url}/mcp") as session:
            failed = await session.call_tool("read", {"path": "none"})
            wrong = await session.call_tool("read", {"paths": "none"})
            unknown = await session.call_tool("zip", {})
            await session.call_tool("write", {"path": "a", "text": "b"})
            return [failed, wrong, unknown, await session.call_tool("read", {"path": "a"})]

    *failures, fine = run(play())
    assert all(failure.isError for failure in failures)
    assert "Unknown tool: 'zip'" in text_of(failures[2])
    assert (fine.isError, text_of(fine)) == (False, "b")


def test_what_fails_is_counted(notes: RunningServer) -> None:
    async def play() -> None:
        async with agent(f"{notes.url}/mcp") as session:
            await session.call_tool("read", {"path": "none"})
            await session.call_tool("read", {"paths": "none"})
            await session.call_tool("zip", {})
            await session.call_tool("submit", {})
            await session.call_tool("count", {})

    run(play())
    metrics = notes.app.state.sessions.metrics
    assert metrics.errors == {"EXECUTION_ERROR": 1, "VALIDATION_ERROR": 2, "SESSION_ERROR": 1}
    call = {"name": "zip", "arguments": {}}
    with notes.http() as http:
        http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    assert metrics.errors["VALIDATION_ERROR"] == 3


HALF = b"\\ud83d".decode("unicode_escape")
"""Half a character, which no JSON has."""


class Unsendable(NotesEnvironment):
    """Offers, reports and gives what can't be sent as it is."""

    def task_tools(self) -> list[Any]:
        return [tool(name="odd", description=f"odd {HALF}")(lambda: None)]

    @tool
    def report(self) -> str:
        """Report."""
        self.report_progress(0.5, HALF)
        return "reported"

    @tool
    def block(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        """Give what looks like the result of a server of MCP's.

        Args:
            content: Its content.
        """
        return {"content": content, "structured_content": None, "data": None, "is_error": False}

    @tool
    def breaks(self) -> Any:
        """Give what raises when it is written."""
        return Breaking()


class Breaking(BaseModel):
    @model_serializer
    def write(self) -> str:
        raise KeyError("/etc/hosts", "sesame-open-wide")


def test_half_characters_and_odd_blocks_cost_no_answer(serve: Serve, gate: Gate) -> None:
    server = serve(partial(cast("Any", Unsendable), gate), NOTES.action, NOTES.observation)
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert total == 1.0
        told.append((progress, message))

    async def play() -> list[str]:
        async with agent(f"{server.url}/mcp") as session:
            offered = {one.name: one.description for one in (await session.list_tools()).tools}
            assert offered["odd"] == "odd ?"
            reported = await session.call_tool("report", {}, progress_callback=note)
            odd = [
                await session.call_tool("block", {"content": [{"type": kind}]}) for kind in ("image", "bogus", "text")
            ]
            return list(map(text_of, [reported, *odd]))

    assert run(play()) == ["reported", '[{"type":"image"}]', '[{"type":"bogus"}]', '[{"type":"text"}]']
    assert told == [(0.5, "?")]


def test_what_an_author_s_models_raise_is_told_without_secrets(
    serve: Serve, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOOR_TOKEN", "sesame-open-wide")
    server = serve(partial(cast("Any", Unsendable), gate), NOTES.action, NOTES.observation)

    async def play() -> str:
        async with agent(f"{server.url}/mcp") as session:
            try:
                told = text_of(await session.call_tool("breaks", {}))
            except McpError as error:
                told = str(error)
            assert text_of(await session.call_tool("write", {"path": "a", "text": "b"})) == "1 notes"
            return told

    told = run(play())
    assert "KeyError" in told or "hosts" in told
    assert "/etc/hosts" not in told
    assert "sesame" not in told


def test_what_json_does_not_have_becomes_null(serve: Serve, gate: Gate) -> None:
    class Odd(NotesEnvironment):
        def reset(self, seed: int | None = None, **task: Any) -> Any:
            return super().reset(seed, nan=float("nan"))

    server = serve(partial(cast("Any", Odd), gate), NOTES.action, NOTES.observation)

    async def play() -> str:
        async with agent(f"{server.url}/mcp") as session:
            return await resource(session, "openenv://task")

    assert '"nan":null' in run(play())
