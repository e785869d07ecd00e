"""Renderer of episodes without a chat template: observations and actions in turn."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.text_form import TextForm
from openenv.train.rollout.renderer import CACHE_SIZE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["PlainRenderer"]


class PlainRenderer:
    """Renderer of the tiny policy: an action is one token where their number is finite, else it has an end token."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", actions: ActionText, max_action_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._form = TextForm(actions)
        self._one_token_each = bool(actions.choices)
        self._end_id = int(tokenizer.eos_token_id)
        self.pad_id = int(tokenizer.pad_token_id)
        self.stop_ids = frozenset() if self._one_token_each else frozenset({self._end_id})
        self.max_action_tokens = 1 if self._one_token_each else max_action_tokens
        # Small environments write the same texts again and again, and so do small policies.
        self._encoded = lru_cache(CACHE_SIZE)(self._encode)
        self._move = lru_cache(CACHE_SIZE)(self._read)

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text."""
        return observation_text(result.observation)

    def opening(self, prompt: Any, observation: str) -> list[int]:
        """Return the observation's tokens; an empty observation counts as the end token."""
        return list(self._encoded(observation)) or [self._end_id]

    def read(self, written: Sequence[int]) -> list[Move]:
        """Return the one move of an answer: its words, joined by spaces."""
        return [self._move(tuple(written))]

    def reply(self, written: Sequence[int], results: Sequence[MoveResult]) -> list[int]:
        """Return the observation's tokens, after the end token if the model did not write it."""
        ended = self._one_token_each or written[-1] in self.stop_ids
        return [*([] if ended else [self._end_id]), *self._encoded(text_of(results[-1].observation))]

    def answer(self, action: str) -> list[int]:
        """Return the action's tokens, and the end token unless each action is one token."""
        return [*self._encoded(action), *([] if self._one_token_each else [self._end_id])]

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _read(self, written: tuple[int, ...]) -> Move:
        text = str(self._tokenizer.decode(list(written), skip_special_tokens=True))
        return self._form.read_text(text)
