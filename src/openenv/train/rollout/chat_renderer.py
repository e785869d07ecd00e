"""Episodes as conversations in which an answer is the text of one action, in the model's own chat template."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import ReadAnswer
from openenv.train.forms.text_form import TextForm
from openenv.train.rollout.renderer import CACHE_SIZE, Renderer, stop_ids_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["ChatRenderer"]


class ChatRenderer(Renderer):
    """Renderer in the model's own chat template: observations are the user's turns, actions the assistant's.

    Raises:
        ConfigurationError: The tokenizer has no chat template, or one that leaves out the messages.
    """

    _MARK = "d41d8cd98f"
    _REASONING = re.compile(r".*</think>", re.DOTALL)

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        model: "PreTrainedModel",
        form: TextForm,
        max_action_tokens: int,
        *,
        thinking: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not tokenizer.chat_template:
            raise ConfigurationError(
                f"The tokenizer of {tokenizer.name_or_path} has no chat template. "
                "Take a model made for conversation (often called Instruct or Chat)."
            )
        super().__init__(tokenizer, form, stop_ids_of(tokenizer, model), max_action_tokens)
        self._settings: dict[str, Any] = {"enable_thinking": thinking, **(settings or {})}
        # Small policies write the same texts again and again.
        self._move = lru_cache(CACHE_SIZE)(form.read_text)

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Return the template's tokens of the messages up to the first answer."""
        return self._encoded(self._rendered(messages))

    def read(self, written: Sequence[int]) -> ReadAnswer:
        """Return an answer, whose one move is without reasoning and special tokens."""
        text = str(self._tokenizer.decode(list(written), skip_special_tokens=True))
        move = self._move(self._REASONING.sub("", text).strip())
        return ReadAnswer({"role": "assistant", "content": self._words(written)}, [move])

    def reply(self, written: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """Return the template's tokens after an answer: its end, the next observation, the next answer's beginning."""
        conversation = [{"role": "user", "content": "?"}, {"role": "assistant", "content": self._MARK}, *messages]
        _, mark, after = self._rendered(conversation).partition(self._MARK)
        if not mark:
            raise ConfigurationError(
                f"The chat template of {self._tokenizer.name_or_path} does not show the assistant's messages, "
                "so a conversation of several turns cannot be written with it."
            )
        tokens = self._encoded(after)
        # The model wrote the token that ends its turn already, unless it was cut off.
        already_ended = written[-1] in self.stop_ids and tokens[0] in self.stop_ids
        return tokens[1:] if already_ended else tokens

    def answer(self, action: str) -> list[int]:
        """Return the action's tokens, and the token that ends a turn."""
        return [*self._encoded(action), int(self._tokenizer.eos_token_id)]

    def _rendered(self, messages: Sequence[Message]) -> str:
        rendered: Any = self._tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, **self._settings
        )
        return str(rendered)

    def _encoded(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))
