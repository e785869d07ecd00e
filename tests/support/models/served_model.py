"""The tiny model on the CPU, as a server of models has it."""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import HTTPException
from tests.support.models.model_server import Message
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.chat_template_utils import parse_response

from openenv.train.generation.sampling import Sampling
from openenv.train.generation.transformers_generator import TransformersGenerator


class ServedModel:
    """A causal language model that completions conversations and continues tokens.

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
            generator = TransformersGenerator(self.model, 0, Sampling(temperature))
            generator.feed(prompts)
            completions = generator.generate([limit] * len(prompts), frozenset(stop_ids))
        return [(answer.token_ids, answer.logprobs) for answer in completions]


def _with_mappings(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    read = []
    for message in messages:
        calls = [
            {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
            for call in message.get("tool_calls", [])
        ]
        read.append({**message, **({"tool_calls": calls} if calls else {})})
    return read
