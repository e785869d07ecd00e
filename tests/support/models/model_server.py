"""A server that speaks OpenAI's API and vLLM's: the tiny model on the CPU, or answers that a test has written."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, HTTPException
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.chat_template_utils import parse_response

from openenv.train.generation.decoder import Decoder
from openenv.train.generation.sampling import Sampling

Message = dict[str, Any]
Answering = Callable[[list[Message], list[dict[str, Any]]], Message]
"""Makes the assistant's message of a conversation and the tools that are offered."""


class ServedModel:
    """A causal language model that answers conversations and continues tokens.

    Args:
        model: The model.
        tokenizer: Its tokenizer, with a chat template and a response template.
        max_context: Tokens that a text may have.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_context: int = 1000) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_context = max_context
        self._lock = threading.Lock()

    def __call__(self, messages: list[Message], tools: list[dict[str, Any]]) -> Message:
        """Answer a conversation."""
        offered: Any = tools or None
        prompt: Any = self.tokenizer.apply_chat_template(
            _with_mappings(messages), tools=offered, add_generation_prompt=True, return_dict=False
        )
        if len(prompt) >= self.max_context:
            raise HTTPException(400, "the conversation is too long")
        ((written, _),) = self.written([list(prompt)], 16, 1.0, [int(self.tokenizer.eos_token_id)])
        message = parse_response(self.tokenizer, written, prefix=list(prompt))
        for number, call in enumerate(message.get("tool_calls", [])):
            call["id"] = f"call{number:05}"
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        return message

    def written(
        self, prompts: Sequence[list[int]], limit: int, temperature: float, stop_ids: Sequence[int]
    ) -> list[tuple[list[int], list[float]]]:
        """Continue texts of tokens."""
        with self._lock:
            decoder = Decoder(self.model, 0, Sampling(temperature))
            decoder.feed(prompts)
            answers = decoder.answer([limit] * len(prompts), frozenset(stop_ids))
        return [(answer.token_ids, answer.logprobs) for answer in answers]


class ModelServer:
    """The application of such a server, and what it was asked.

    Args:
        answer: Answers conversations.
        model: Continues texts of tokens; ``None`` for a server that only converses.

    Attributes:
        app: The application.
        requests: The bodies of the requests, in their order.
        at_once: The most requests that were answered at the same time.
    """

    def __init__(self, answer: Answering, model: ServedModel | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self.at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self._answer = answer
        self._model = model
        self.app = FastAPI()
        self.app.add_api_route("/v1/chat/completions", self.chat, methods=["POST"])
        self.app.add_api_route("/v1/completions", self.completions, methods=["POST"])
        self.app.add_api_route("/v1/models", self.models)
        self.app.add_api_route("/health", self.health)
        self.app.add_api_route("/server_info", self.server_info)

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a conversation, as OpenAI's API does."""
        with self._lock:
            self.requests.append(body)
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            message = self._answer(body["messages"], body.get("tools", []))
        finally:
            with self._lock:
                self._now -= 1
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}

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
        return {"object": "list", "data": [{"id": "tiny", "object": "model", "created": 0, "owned_by": "tests"}]}

    def health(self) -> dict[str, Any]:
        """Be there."""
        return {}

    def server_info(self) -> dict[str, Any]:
        """Say what vLLM says of itself in its development mode."""
        assert self._model is not None
        settings = {"max_model_len": self._model.max_context, "logprobs_mode": "processed_logprobs"}
        return {"vllm_config": {"model_config": settings}}


def _logprobs(ids: Sequence[int], logprobs: Sequence[float]) -> dict[str, Any]:
    """Write log-probabilities as vLLM does: beside the drawn token's, a likelier one's."""
    tokens = [f"token_id:{token}" for token in ids]
    likelier = [{"token_id:999999": logprob / 2} for logprob in logprobs]
    return {"tokens": tokens, "token_logprobs": list(logprobs), "top_logprobs": likelier}


def _with_mappings(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    read = []
    for message in messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
            for call in message.get("tool_calls", [])
        ]
        read.append({**message, **({"tool_calls": calls} if calls else {})})
    return read
