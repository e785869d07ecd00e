"""A server that speaks OpenAI's API and vLLM's: of a model, or of answers that a test has written."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from tests.support.servers import RunningServer

Message = dict[str, Any]
Answering = Callable[[list[Message], list[dict[str, Any]]], Message | Response]
"""Makes the assistant's message of a conversation and the tools that are offered, or what is sent in place of one."""

Answer = str | tuple[str, Mapping[str, Any]] | Response
"""A text, a tool's name with arguments, or what is sent in place of one."""

Script = Callable[[Sequence[Mapping[str, Any]]], Answer]
"""From a conversation to the model's next answer."""


class TokenModel(Protocol):
    """What continues texts of tokens."""

    @property
    def max_context(self) -> int:
        """Tokens that a text may have."""

    def written(
        self, prompts: Sequence[list[int]], limit: int, temperature: float, stop_ids: Sequence[int]
    ) -> list[tuple[list[int], list[float]]]:
        """Continue texts of tokens."""


class ModelServer:
    """The application of such a server, and what it was asked.

    Args:
        answer: Answers conversations.
        model: Continues texts of tokens; ``None`` for a server that only converses.
        name: The only model that there is; ``None`` for one that goes by any name.

    Attributes:
        app: The application.
        requests: The bodies of the requests, in their order.
        keys: The keys that requests had.
        at_once: The most requests that were answered at the same time.
    """

    def __init__(self, answer: Answering, model: TokenModel | None = None, name: str | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._answer = answer
        self._model = model
        self._name = name
        self.app = FastAPI(dependencies=[Depends(self.note_key)])
        self.app.add_api_route("/v1/chat/completions", self.chat, methods=["POST"])
        self.app.add_api_route("/v1/completions", self.completions, methods=["POST"])
        self.app.add_api_route("/v1/models", self.models)
        self.app.add_api_route("/health", self.health)
        self.app.add_api_route("/server_info", self.server_info)

    def note_key(self, request: Request) -> None:
        """Note the key of a request."""
        self.keys.add(request.headers.get("Authorization", "").removeprefix("Bearer "))

    def chat(self, body: dict[str, Any]) -> Any:
        """Answer a conversation, as OpenAI's API does."""
        with self._lock:
            self.requests.append(body)
            if self._name not in (None, body["model"]):
                return JSONResponse({"error": {"message": f"The model {body['model']} does not exist."}}, 404)
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            message = self._answer(body["messages"], body.get("tools", []))
        finally:
            with self._lock:
                self._now -= 1
        if isinstance(message, Response):
            return message
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        read = 10 * len(body["messages"])
        usage = {"prompt_tokens": read, "completion_tokens": 5, "total_tokens": read + 5, "cost": 0.25}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        return {**answer, "choices": [choice], "usage": usage}

    def completions(self, body: dict[str, Any]) -> dict[str, Any]:
        """Continue texts of tokens, as vLLM does."""
        assert self._model is not None
        self.requests.append(body)
        if max(map(len, body["prompt"])) + body["max_tokens"] > self._model.max_context:
            raise HTTPException(400, "the maximum context length is exceeded")
        stops = body.get("stop_token_ids", [])
        written = self._model.written(body["prompt"], body["max_tokens"], body["temperature"], stops)
        return {
            "choices": [
                {"prompt_token_ids": prompt, "token_ids": ids, "logprobs": _logprobs(ids, logprobs)}
                for prompt, (ids, logprobs) in zip(body["prompt"], written, strict=True)
            ]
        }

    def models(self) -> dict[str, Any]:
        """Name the one model."""
        return {
            "object": "list",
            "data": [{"id": self._name or "tiny", "object": "model", "created": 0, "owned_by": "tests"}],
        }

    def health(self) -> dict[str, Any]:
        """Be there."""
        return {}

    def server_info(self) -> dict[str, Any]:
        """Say what vLLM says of itself in its development mode."""
        assert self._model is not None
        settings = {"max_model_len": self._model.max_context, "logprobs_mode": "processed_logprobs"}
        return {"vllm_config": {"model_config": settings}}


class ScriptedModel(ModelServer):
    """A server, running once it is entered, whose one model, ``climber``, follows a script.

    Args:
        script: What the model answers.

    Attributes:
        server: To be entered.
        url: What clients take for ``base_url``.
    """

    def __init__(self, script: Script) -> None:
        super().__init__(self._follow, name="climber")
        self._script = script
        self._numbers = count()
        self.server = RunningServer(self.app)
        self.url = f"{self.server.url}/v1"

    def _follow(self, messages: list[Message], _tools: list[dict[str, Any]]) -> Message | Response:
        answer = self._script(messages)
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, str):
            return {"role": "assistant", "content": answer}
        function = {"name": answer[0], "arguments": json.dumps(answer[1])}
        call = {"id": f"id{next(self._numbers)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}


def climb(messages: Sequence[Mapping[str, Any]]) -> Answer:
    """Climb the stairs, but fall asleep on the first step."""
    tired = messages[-1]["role"] == "user"
    return "climb", {"move": "fall asleep" if tired else "up"}


def _logprobs(ids: Sequence[int], logprobs: Sequence[float]) -> dict[str, Any]:
    """Write log-probabilities as vLLM does: beside the drawn token's, a likelier one's."""
    tokens = [f"token_id:{token}" for token in ids]
    likelier = [{"token_id:999999": logprob / 2} for logprob in logprobs]
    return {"tokens": tokens, "token_logprobs": list(logprobs), "top_logprobs": likelier}
