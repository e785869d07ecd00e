"""Renderers: a form of the conversation with a tokenizer, so that episodes become tokens, and tokens moves.

The tokens that a model wrote are never decoded and tokenised again: an episode's tokens are exactly what it was fed
and what it wrote, so that training sees what sampling saw. The episode's messages are the same conversation as text.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.form import Form
from openenv.train.forms.moves import ReadAnswer
from openenv.train.tools.contents import Content

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["Renderer", "stop_ids_of", "text_only"]

CACHE_SIZE = 10_000


class Renderer(ABC):
    """Renderer between a model's tokens and an environment's observations and actions.

    Attributes:
        form: The form of the conversation.
        stop_ids: Tokens that end an answer.
        max_action_tokens: How many tokens an answer may have.
        pad_id: A token to pad with.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        form: Form,
        stop_ids: frozenset[int],
        max_action_tokens: int,
    ) -> None:
        self.form = form
        self.stop_ids = stop_ids
        self.max_action_tokens = max_action_tokens
        pad_id = tokenizer.pad_token_id
        self.pad_id = int(tokenizer.eos_token_id if pad_id is None else pad_id)
        self._tokenizer = tokenizer
        # Texts of tokens that were requested, by their ids.
        self._texts: dict[int, str] = {}

    def shown(self, result: StepResult[Any]) -> str:
        """Return the text of a result that the agent is shown.

        Raises:
            ConfigurationError: It has pictures.
        """
        return text_only(self.form.shown(result))

    @abstractmethod
    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of the messages up to the first answer."""

    @abstractmethod
    def read(self, written: Sequence[int]) -> ReadAnswer:
        """Return the answer that a model wrote."""

    @abstractmethod
    def reply(self, written: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """Return the tokens from the end of an answer up to the next one, with the messages between."""

    @abstractmethod
    def answer(self, action: str) -> list[int]:
        """Return a model's tokens for a move: those of the move's text, and those that end it."""

    def texts(self, token_ids: Iterable[int]) -> dict[int, str]:
        """Return the text of each of some tokens, by their ids; of a part of a character, a replacement character."""
        tokens = set(token_ids)
        for token in tokens - self._texts.keys():
            self._texts[token] = self._decoded([token])
        return {token: self._texts[token] for token in tokens}

    def _words(self, written: Sequence[int]) -> str:
        """Return all that a model wrote, but for the token that ended its answer."""
        return self._decoded(written[:-1] if written and written[-1] in self.stop_ids else written)

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))


def text_only(content: Content) -> str:
    """Return content that must be text.

    Raises:
        ConfigurationError: It has pictures, which TRL's rollout functions cannot forward.
    """
    if isinstance(content, str):
        return content
    raise ConfigurationError(
        "The environment shows pictures, and TRL takes none from a rollout_func. Train with environment_factory."
    )


def stop_ids_of(tokenizer: "PreTrainedTokenizerBase", model: "PreTrainedModel") -> frozenset[int]:
    """Return the tokens that end an answer: the tokenizer's, and those of the model's generation settings."""
    named = model.generation_config.eos_token_id
    ids = [named] if isinstance(named, int) else list(named or [])
    return frozenset([*ids, int(tokenizer.eos_token_id)])
