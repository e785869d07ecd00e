"""How an episode becomes tokens: what a model is fed before its first action and between two actions.

The tokens that a model wrote are never decoded and tokenised again: an episode's tokens are exactly what it was fed
and what it wrote, so that training sees what sampling saw.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from openenv.adapters.text import ActionText
from openenv.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["ChatDialogue", "Dialogue", "PlainDialogue", "first_content", "next_content"]

CACHE_SIZE = 10_000


def first_content(instructions: str, observation: str) -> str:
    """Return what a conversation says before the first action."""
    return f"{instructions}\n\n{observation}"


def next_content(observation: str, problem: str | None = None) -> str:
    """Return what a conversation says between two actions.

    Args:
        observation: What the agent is shown now.
        problem: Why what it wrote last was no legal action, if it was none.
    """
    return f"That was no legal action: {problem}\n\n{observation}" if problem else observation


class Dialogue(Protocol):
    """The tokens between a model and an environment.

    Attributes:
        stop_ids: Tokens that end an action.
        max_action_tokens: How many tokens an action may have.
        pad_id: A token to pad with.
    """

    stop_ids: frozenset[int]
    max_action_tokens: int
    pad_id: int

    def opening(self, observation: str) -> list[int]:
        """Return the tokens of an episode's beginning, up to the first action."""
        ...

    def between(self, written: Sequence[int], observation: str, problem: str | None = None) -> list[int]:
        """Return the tokens from the end of what the model wrote up to its next action.

        Args:
            written: What the model wrote last.
            observation: What it is shown now.
            problem: Why what it wrote was no legal action, if it was none.
        """
        ...

    def action_text(self, written: Sequence[int]) -> str:
        """Return what the model wrote, as the text of an action."""
        ...

    def answer(self, action: str) -> list[int]:
        """Return what a model writes that does an action: the tokens of its text, and those that end it."""
        ...


class PlainDialogue:
    """Observations and actions in turn, with nothing around them: the tiny policy's dialogue.

    Where there is a finite number of actions, and each is one token of the vocabulary, an action is one token. Other
    actions end with the tokenizer's end token.

    Args:
        tokenizer: The tiny policy's tokenizer.
        actions: The environment's actions.
        max_action_tokens: How many tokens an action of the other kind may have.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", actions: ActionText, max_action_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._one_token_each = bool(actions.choices)
        self._end_id = int(tokenizer.eos_token_id)
        self.pad_id = int(tokenizer.pad_token_id)
        self.stop_ids = frozenset() if self._one_token_each else frozenset({self._end_id})
        self.max_action_tokens = 1 if self._one_token_each else max_action_tokens
        # Small environments say the same things again and again, and so do small policies.
        self._encoded = lru_cache(CACHE_SIZE)(self._encode)
        self._decoded = lru_cache(CACHE_SIZE)(self._decode)

    def opening(self, observation: str) -> list[int]:
        """Return the observation's tokens; an empty observation counts as the end token."""
        return list(self._encoded(observation)) or [self._end_id]

    def between(self, written: Sequence[int], observation: str, problem: str | None = None) -> list[int]:
        """Return the observation's tokens, after the end token if the model did not write it."""
        ended = self._one_token_each or written[-1] in self.stop_ids
        return [*([] if ended else [self._end_id]), *self._encoded(observation)]

    def action_text(self, written: Sequence[int]) -> str:
        """Return the words, joined by spaces."""
        return self._decoded(tuple(written))

    def answer(self, action: str) -> list[int]:
        """Return the action's tokens, and the end token unless each action is one token."""
        return [*self._encoded(action), *([] if self._one_token_each else [self._end_id])]

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _decode(self, written: tuple[int, ...]) -> str:
        return str(self._tokenizer.decode(list(written), skip_special_tokens=True))


class ChatDialogue:
    """A conversation in the model's own chat template: observations are the user's turns, actions the assistant's.

    Args:
        tokenizer: A tokenizer with a chat template.
        model: The model; its generation settings may name further tokens that end a turn.
        instructions: Text for the agent before the first observation.
        max_action_tokens: How many tokens a turn of the assistant may have.
        thinking: Passed to the template as ``enable_thinking``.
        settings: What else is passed to the template.

    Raises:
        ConfigurationError: The tokenizer has no chat template, or one that leaves out the messages.
    """

    _MARK = "d41d8cd98f"
    _REASONING = re.compile(r".*</think>", re.DOTALL)

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        model: "PreTrainedModel",
        instructions: str,
        max_action_tokens: int,
        thinking: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not tokenizer.chat_template:
            raise ConfigurationError(
                f"The tokenizer of {tokenizer.name_or_path} has no chat template. "
                "Take a model made for conversation (often called Instruct or Chat)."
            )
        self._tokenizer = tokenizer
        self._settings: dict[str, Any] = {"enable_thinking": thinking, **(settings or {})}
        self._instructions = instructions
        self.max_action_tokens = max_action_tokens
        self.stop_ids = stop_ids_of(tokenizer, model)
        pad_id = tokenizer.pad_token_id
        self.pad_id = int(tokenizer.eos_token_id if pad_id is None else pad_id)

    def opening(self, observation: str) -> list[int]:
        """Return a conversation with one message: the instructions and the first observation."""
        message = {"role": "user", "content": first_content(self._instructions, observation)}
        return self.opening_of([message])

    def opening_of(self, messages: list[dict[str, Any]]) -> list[int]:
        """Return the tokens of a conversation up to the model's first answer in it."""
        return self._encoded(self._rendered(messages))

    def between(self, written: Sequence[int], observation: str, problem: str | None = None) -> list[int]:
        """Return what the template puts after an answer: its end, the next observation, and the answer's beginning."""
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": self._MARK},
            {"role": "user", "content": next_content(observation, problem)},
        ]
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

    def action_text(self, written: Sequence[int]) -> str:
        """Return the answer without reasoning and special tokens."""
        text = str(self._tokenizer.decode(list(written), skip_special_tokens=True))
        return self._REASONING.sub("", text).strip()

    def answer(self, action: str) -> list[int]:
        """Return the action's tokens, and the token that ends a turn."""
        return [*self._encoded(action), int(self._tokenizer.eos_token_id)]

    def _rendered(self, messages: list[dict[str, Any]]) -> str:
        rendered: Any = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **self._settings
        )
        return str(rendered)

    def _encoded(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def stop_ids_of(tokenizer: "PreTrainedTokenizerBase", model: "PreTrainedModel") -> frozenset[int]:
    """Return the tokens that end an answer: the tokenizer's, and those of the model's generation settings."""
    named = model.generation_config.eos_token_id
    ids = [named] if isinstance(named, int) else list(named or [])
    return frozenset([*ids, int(tokenizer.eos_token_id)])
