"""Renderer of episodes without a chat template: observations and actions in turn."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import Message, text_of
from openenv.train.forms.moves import MoveResult, ReadAnswer
from openenv.train.forms.text_form import TextForm
from openenv.train.rollout.renderer import CACHE_SIZE, Renderer
from openenv.train.tools.contents import Content

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["PlainRenderer"]


class PlainRenderer(Renderer):
    """Renderer of the tiny policy: an action is one token where their number is finite, else it has an end token."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", actions: ActionText, max_action_tokens: int) -> None:
        self._form = _PlainForm(actions)
        self._one_token_each = bool(actions.choices)
        self._end_id = int(tokenizer.eos_token_id)
        stop_ids: frozenset[int] = frozenset() if self._one_token_each else frozenset({self._end_id})
        super().__init__(tokenizer, self._form, stop_ids, 1 if self._one_token_each else max_action_tokens)
        # Small environments write the same texts again and again, and so do small policies.
        self._encoded = lru_cache(CACHE_SIZE)(self._encode)
        self._answer = lru_cache(CACHE_SIZE)(self._read)

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Return the observation's tokens; an empty observation counts as the end token."""
        (message,) = messages
        return list(self._encoded(text_of(message["content"]))) or [self._end_id]

    def read(self, written: Sequence[int]) -> ReadAnswer:
        """Return an answer, whose one move is its words, joined by spaces."""
        return self._answer(tuple(written))

    def reply(self, written: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """Return the observation's tokens, after the end token if the model did not write it."""
        ended = self._one_token_each or written[-1] in self.stop_ids
        return [*([] if ended else [self._end_id]), *self._encoded(text_of(messages[-1]["content"]))]

    def answer(self, action: str) -> list[int]:
        """Return the action's tokens, and the end token unless each action is one token."""
        return [*self._encoded(action), *([] if self._one_token_each else [self._end_id])]

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _read(self, written: tuple[int, ...]) -> ReadAnswer:
        text = str(self._tokenizer.decode(list(written), skip_special_tokens=True))
        message = {"role": "assistant", "content": self._words(written)}
        return ReadAnswer(message, (self._form.read_text(text),))


class _PlainForm(TextForm):
    """Form of a policy that reads observations and nothing else: no prompt, no instructions, no problems."""

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text."""
        return observation_text(result.observation)

    def opening(self, before: Content, observation: Content) -> Content:
        """Return the observation."""
        return observation

    def opening_messages(self, observation: Content | None, prompt: Sequence[Message] | None = None) -> list[Message]:
        """Return the observation alone, whatever the prompt."""
        return super().opening_messages(observation)

    def replies(self, answer: Message, results: Sequence[MoveResult], *, failed: bool = False) -> list[Message]:
        """Return the observation after the last move."""
        return [{"role": "user", "content": result.observation} for result in results[-1:]]
