"""Serve environments made with the OpenReward SDK until killed; prints the port first, then a line for each ping."""

# The SDK is not typed.
# mypy: disable-error-code="misc, untyped-decorator"

import base64
import os
import socket
import sys

import uvicorn
from openreward.environments import (
    Environment,
    ImageBlock,
    JSONObject,
    Server,
    TextBlock,
    ToolOutput,
    terminal,
    tool,
)
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

TASKS = {"train": [{"word": "hello"}, {"word": "world"}], "test": [{"word": "other"}]}


class Told(BaseModel):
    """A word."""

    word: str


class RiddleEnvironment(Environment):
    """Has to be told the word that its task holds."""

    REQUIRES_RESET = True

    @classmethod
    def name(cls) -> str:
        return "riddle"

    @classmethod
    def list_splits(cls) -> list[str]:
        return list(TASKS)

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return list(TASKS[split])

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text=f"Tell me {self.task_spec['word']}.")]

    @tool
    async def tell(self, params: Told) -> ToolOutput:
        """Say a word."""
        right = params.word == self.task_spec["word"]
        block = TextBlock(text="right" if right else "wrong")
        return ToolOutput(blocks=[block], reward=float(right), finished=right, metadata={"times": 1})


class OddEnvironment(RiddleEnvironment):
    """Does what environments do rarely."""

    @classmethod
    def name(cls) -> str:
        return "odd"

    def get_prompt(self) -> list[TextBlock | ImageBlock]:
        return [TextBlock(text="See"), _picture(), TextBlock(text="this.")]

    @tool
    async def fall(self) -> ToolOutput:
        """Fail."""
        raise ValueError("fallen")

    @tool
    async def paint(self) -> ToolOutput:
        """Show a picture."""
        return ToolOutput(blocks=[TextBlock(text="look"), _picture()])

    @terminal
    @tool
    async def answer(self, params: Told) -> ToolOutput:
        """Take what the model says last."""
        return ToolOutput(blocks=[], reward=0.5, finished=True)


class ReservedEnvironment(RiddleEnvironment):
    """Has a tool with a name that looks like a trainer's."""

    @classmethod
    def name(cls) -> str:
        return "reserved"

    @tool
    async def reset(self) -> ToolOutput:
        """Look like something else."""
        return ToolOutput(blocks=[])


class KeyedEnvironment(RiddleEnvironment):
    """Is there for those who know the key."""

    @classmethod
    def name(cls) -> str:
        return "keyed"


class Watched:
    """Around the application: prints pings, and asks for the key of one environment."""

    def __init__(self, app: ASGIApp, report: int) -> None:
        self.app = app
        self.report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", []))
        if scope.get("path") == "/ping":
            os.write(self.report, b"ping\n")
        if scope.get("path", "").startswith("/keyed/") and headers.get(b"x-api-key") != b"secret":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        await self.app(scope, receive, send)


def _picture() -> ImageBlock:
    return ImageBlock(data=base64.b64encode(b"hello").decode(), mimeType="image/png")


def main() -> None:
    """Serve."""
    server = Server([RiddleEnvironment, OddEnvironment, ReservedEnvironment, KeyedEnvironment])
    report = os.dup(sys.stdout.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the SDK writes its log
    with socket.create_server(("127.0.0.1", 0)) as listener:
        os.write(report, f"{listener.getsockname()[1]}\n".encode())
        config = uvicorn.Config(Watched(server.app, report), log_level="error", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
