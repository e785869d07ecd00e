"""Renderers: a form of the conversation with a tokenizer, so that episodes become tokens, and tokens moves.

The tokens that a model wrote are never decoded and tokenised again: an episode's tokens are exactly what it was fed
and what it wrote, so that training sees what sampling saw.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.played_episode import Message
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.tools.contents import Content

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["MessagesOf", "Renderer", "stop_ids_of", "text_only", "user_message"]

CACHE_SIZE = 10_000

MessagesOf = Callable[[Any, str], list[Message]]
"""Function from the dataset's prompt and the user's first content to the conversation up to the first answer."""


class Renderer(Protocol):
    """Renderer between a model's tokens and an environment's observations and actions.

    Attributes:
        stop_ids: Tokens that end an answer.
        max_action_tokens: How many tokens an answer may have.
        pad_id: A token to pad with.
    """

    stop_ids: frozenset[int]
    max_action_tokens: int
    pad_id: int

    def shown(self, result: StepResult[Any]) -> str:
        """Return the text of a result that the agent is shown."""
        ...

    def opening(self, prompt: Any, observation: str) -> list[int]:
        """Return the tokens up to the first answer; ``prompt`` is of the trainer's dataset, ``None`` without one."""
        ...

    def read(self, written: Sequence[int]) -> list[Move]:
        """Return the moves in an answer, in their order; none if the agent ends the episode."""
        ...

    def reply(self, written: Sequence[int], results: Sequence[MoveResult]) -> list[int]:
        """Return the tokens from the end of an answer, which has at least one result, up to the next one."""
        ...

    def answer(self, action: str) -> list[int]:
        """Return a model's tokens for a move: those of the move's text, and those that end it."""
        ...


def user_message(prompt: Any, content: str) -> list[Message]:
    """Make a conversation of one message of the user, for episodes without a dataset's prompt."""
    return [{"role": "user", "content": content}]


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
