"""A judge behind an OpenAI-compatible address that answers as a test has written, and counts its tokens."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import HTTPException, Response
from tests.support.models.model_server import Message, ModelServer
from tests.support.servers import RunningServer

from openenv.core.llm_client import OpenAIClient

Reply = str | int | Response
"""A text, the status of an error, or what is sent in place of an answer."""


class JudgeServer(ModelServer):
    """A judge, running once its server is entered.

    Args:
        reply: From a prompt to the reply; or replies in their order, of which the last is repeated.

    Attributes:
        reply: As the argument.
        server: To be entered.
    """

    def __init__(self, reply: Callable[[str], Reply] | Sequence[Reply]) -> None:
        super().__init__(self._judge)
        self.reply = reply
        self.server = RunningServer(self.app)

    @property
    def prompts(self) -> list[str]:
        """The prompts so far."""
        return [request["messages"][-1]["content"] for request in self.requests]

    def client(self, **settings: Any) -> OpenAIClient:
        """Return a client that repeats nothing by itself."""
        return OpenAIClient("http://127.0.0.1", self.server.port, "judge", **{"max_retries": 0, **settings})

    def chat(self, body: dict[str, Any]) -> Any:
        """Answer, with 10 tokens for the prompt and 5 for the answer."""
        answer = super().chat(body)
        if isinstance(answer, Response):
            return answer
        return {**answer, "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}

    def _judge(self, messages: list[Message], _tools: list[dict[str, Any]]) -> Message | Response:
        if callable(self.reply):
            reply = self.reply(messages[-1]["content"])
        else:
            reply = self.reply[min(len(self.requests), len(self.reply)) - 1]
        if isinstance(reply, int):
            raise HTTPException(reply, "try again later")
        if isinstance(reply, Response):
            return reply
        return {"role": "assistant", "content": reply}
