"""A server as the public ones are: the legacy wire alone, one session for each socket, and no tools of actions."""

from typing import Any, Literal

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Say(BaseModel):
    """Say something."""

    model_config = ConfigDict(extra="forbid")

    metadata: dict[str, Any] = Field(default_factory=dict)
    text: str = Field(description="What to say.")
    loud: bool = False
    to: Literal["all", "me"] | None = None


class Heard(BaseModel):
    """What was heard."""

    text: str


def legacy_app() -> FastAPI:
    """Make the application."""
    app = FastAPI()

    @app.get("/schema")
    def schema() -> dict[str, Any]:
        return {"action": Say.model_json_schema(), "observation": Heard.model_json_schema(), "state": {}}

    @app.websocket("/ws")
    async def session(socket: WebSocket) -> None:
        await socket.accept()
        try:
            while True:
                await socket.send_json(_answer(await socket.receive_json()))
        except WebSocketDisconnect:
            return

    return app


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["type"]:
        case "reset":
            return _observation(f"Say something, {message['data'].get('seed')}.", None, done=False)
        case "step":
            return _step(message["data"])
        case "mcp":
            error = {"code": -32603, "message": "Environment does not support MCP", "data": None}
            return {"type": "mcp", "data": {"jsonrpc": "2.0", "id": message["data"]["id"], "error": error}}
        case _:
            return {"type": "state", "data": {"step_count": 0}}


def _step(data: dict[str, Any]) -> dict[str, Any]:
    try:
        said = Say.model_validate(data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        return {
            "type": "error",
            "data": {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": errors},
        }
    return _observation(said.text.upper() if said.loud else said.text, 1.0, done=said.text == "bye")


def _observation(text: str, reward: float | None, *, done: bool) -> dict[str, Any]:
    return {"type": "observation", "data": {"observation": {"text": text}, "reward": reward, "done": done}}
