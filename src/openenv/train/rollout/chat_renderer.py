"""Episodes as conversations in which an answer is the text of one action, in the model's own chat template."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.text_form import TextForm
from openenv.train.rollout.renderer import CACHE_SIZE, MessagesOf, stop_ids_of, text_only, user_message

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["ChatRenderer"]


class ChatRenderer:
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
        messages_of: MessagesOf = user_message,
    ) -> None:
        if not tokenizer.chat_template:
            raise ConfigurationError(
                f"The tokenizer of {tokenizer.name_or_path} has no chat template. "
                "Take a model made for conversation (often called Instruct or Chat)."
            )
        self._tokenizer = tokenizer
        self._settings: dict[str, Any] = {"enable_thinking": thinking, **(settings or {})}
        self._form = form
        self._messages_of = messages_of
        # Small policies write the same texts again and again.
        self._move = lru_cache(CACHE_SIZE)(form.read_text)
        self.max_action_tokens = max_action_tokens
        self.stop_ids = stop_ids_of(tokenizer, model)
        pad_id = tokenizer.pad_token_id
        self.pad_id = int(tokenizer.eos_token_id if pad_id is None else pad_id)

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text.

        Raises:
            ConfigurationError: It has pictures.
        """
        return text_only(self._form.shown(result))

    def opening(self, prompt: Any, observation: str) -> list[int]:
        """Return the tokens of the dataset's prompt, the instructions and the first observation."""
        content = text_only(self._form.opening(observation))
        return self._encoded(self._rendered(self._messages_of(prompt, content)))

    def read(self, written: Sequence[int]) -> list[Move]:
        """Return the one move of an answer, without reasoning and special tokens."""
        text = str(self._tokenizer.decode(list(written), skip_special_tokens=True))
        return [self._move(self._REASONING.sub("", text).strip())]

    def reply(self, written: Sequence[int], results: Sequence[MoveResult]) -> list[int]:
        """Return the template's tokens after an answer: its end, the next observation, the next answer's beginning."""
        answer = {"role": "assistant", "content": self._MARK}
        messages = [{"role": "user", "content": "?"}, answer, *self._form.replies(answer, results)]
        _, mark, after = self._rendered(messages).partition(self._MARK)
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

    def _rendered(self, messages: list[Message]) -> str:
        rendered: Any = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **self._settings
        )
        return str(rendered)

    def _encoded(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))
