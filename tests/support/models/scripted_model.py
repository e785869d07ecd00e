"""An OpenAI-compatible server whose model follows a script: enough of the API for a client that calls tools."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from tests.support.servers import RunningServer

Answer = str | tuple[str, Mapping[str, Any]]
"""A text, or a tool's name with arguments."""

Script = Callable[[Sequence[Mapping[str, Any]]], Answer]
"""From a conversation to the model's next answer."""


class ScriptedModel:
    """Such a server.

    Args:
        script: What the model answers.

    Attributes:
        requests: The bodies of all requests.
        url: What clients take for ``base_url``.
    """

    def __init__(self, script: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        self._script = script
        self._numbers = count()
        app = FastAPI()
        app.post("/v1/chat/completions")(self._complete)
        self.server = RunningServer(app)
        self.url = f"{self.server.url}/v1"

    async def _complete(self, request: dict[str, Any]) -> JSONResponse:
        self.requests.append(request)
        if request["model"] != "climber":
            return JSONResponse({"error": {"message": f"The model {request['model']} does not exist."}}, 404)
        answer = self._script(request["messages"])
        message: dict[str, Any] = {"role": "assistant", "content": answer}
        if not isinstance(answer, str):
            function = {"name": answer[0], "arguments": json.dumps(answer[1])}
            call = {"id": f"id{next(self._numbers)}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        completion = {"id": "x", "object": "chat.completion", "created": 0, "model": "climber", "choices": [choice]}
        return JSONResponse(completion)


def climb(messages: Sequence[Mapping[str, Any]]) -> Answer:
    """Climb the stairs, but fall asleep on the first step."""
    tired = messages[-1]["role"] == "user"
    return "climb", {"move": "fall asleep" if tired else "up"}
