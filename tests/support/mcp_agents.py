"""Agents for the tests: an environment with tools, the official client, and one that sends exactly what it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from tests.support.environments.common import Gate

from openenv import Environment, Observation, ToolResult, tool

PROTOCOL = "2025-06-18"
BOTH_KINDS = "application/json, text/event-stream"
PATIENCE_S = 60.0


class Page(Observation):
    """What a reset shows."""

    text: str
    task: dict[str, Any]


class NotesEnvironment(Environment[Any, Page, Any]):
    """Keeps notes; its tools do everything that a tool may."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def __init__(self, gate: Gate | None = None) -> None:
        self.gate = gate or Gate()
        self.notes: dict[str, str] = {}
        self.gate.note("make")

    def reset(self, seed: int | None = None, **task: Any) -> Page:
        self.gate.note("reset")
        self.notes = {}
        return Page(text="Write a note.", task={"seed": seed, **task})

    def close(self) -> None:
        self.gate.note("close")

    @tool
    def write(self, path: str, text: str) -> str:
        """Write a note.

        Args:
            path: Where.
            text: What.
        """
        self.notes[path] = text
        return f"{len(self.notes)} notes"

    @tool
    def read(self, path: str) -> Any:
        """Read a note.

        Args:
            path: Where.
        """
        return self.notes[path]

    @tool
    def count(self) -> dict[str, int]:
        """Count the notes."""
        return {"notes": len(self.notes)}

    @tool
    def repeat(self, value: Any) -> Any:
        """Give back what came.

        Args:
            value: Anything.
        """
        return value

    @tool
    def slow(self) -> str:
        """Wait at the gate, in a thread."""
        self.report_progress(0.25, "at the gate")
        self.gate.note("slow")
        self.gate.pass_through()
        self.report_progress(0.75, "through")
        return "through"

    @tool
    async def hang(self) -> str:
        """Never end."""
        self.gate.note("hang")
        self.gate.entered.release()
        try:
            await asyncio.Event().wait()
        finally:
            self.gate.note("hung")
        return "never"

    @tool
    def half(self) -> str:
        """Give back half a character."""
        return b"\\ud83d".decode("unicode_escape")

    @tool(terminal=True)
    async def submit(self) -> ToolResult:
        """Hand the notes in."""
        return ToolResult("handed in", reward=1.0, metadata={"notes": len(self.notes)})


Notes: Any = NotesEnvironment
"""The class, for those who make one: to a type checker it seems to lack what a class with tools gets by itself."""


def text_of(result: types.CallToolResult) -> str:
    """The first text of a tool's result."""
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@asynccontextmanager
async def agent(url: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[ClientSession]:
    """Connect the official client to a server, at ``/mcp`` with whatever follows in the address."""
    async with (
        httpx.AsyncClient(headers=dict(headers or {}), trust_env=False, timeout=PATIENCE_S) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


def run(awaitable: Awaitable[Any]) -> Any:
    """Run an agent's program to its end."""
    return asyncio.run(asyncio.wait_for(awaitable, PATIENCE_S))


async def resource(session: ClientSession, uri: str) -> str:
    """Read a resource."""
    contents = (await session.read_resource(AnyUrl(uri))).contents[0]
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


class BareAgent:
    """Speaks streamable HTTP by hand, one request at a time."""

    def __init__(self, http: httpx.Client, path: str = "/mcp") -> None:
        self.http = http
        self.path = path
        self.headers = {"Accept": BOTH_KINDS}
        self._id = -1

    def post(self, message: Any, **headers: str) -> httpx.Response:
        content = message if isinstance(message, str | bytes) else json.dumps(message)
        kind = {"Content-Type": "application/json"}
        return self.http.post(self.path, content=content, headers={**self.headers, **kind, **headers})

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        return {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}

    def connect(self) -> httpx.Response:
        about = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bare", "version": "1"}}
        response = self.post(self.request("initialize", **about))
        if response.status_code == 200:
            self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
            assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        return response

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return what answers it."""
        return self.answer(self.post(self.request(method, **params)))

    def call(self, name: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=name, arguments=arguments)

    @staticmethod
    def answer(response: httpx.Response) -> Any:
        assert response.status_code == 200, response.text
        events = [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data:")]
        return events[-1]
