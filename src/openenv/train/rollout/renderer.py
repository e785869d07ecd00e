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
"""Makes the conversation up to the first answer, of the dataset's prompt and what the user says first."""


class Renderer(Protocol):
    """The tokens between a model and an environment.

    Attributes:
        stop_ids: Tokens that end an answer.
        max_action_tokens: How many tokens an answer may have.
        pad_id: A token to pad with.
    """

    stop_ids: frozenset[int]
    max_action_tokens: int
    pad_id: int

    def shown(self, result: StepResult[Any]) -> str:
        """Return what the agent is shown of a result."""
        ...

    def opening(self, prompt: Any, observation: str) -> list[int]:
        """Return the tokens of an episode's beginning, up to the first answer.

        Args:
            prompt: What the trainer's dataset says of the episode; ``None`` for nothing.
            observation: What the agent is shown first.
        """
        ...

    def read(self, written: Sequence[int]) -> list[Move]:
        """Return the moves in an answer, in their order; none if the agent is content with how things are."""
        ...

    def reply(self, written: Sequence[int], results: Sequence[MoveResult]) -> list[int]:
        """Return the tokens from the end of an answer up to the next one.

        Args:
            written: The answer.
            results: What came of its moves, at least one.
        """
        ...

    def answer(self, action: str) -> list[int]:
        """Return what a model writes that makes a move: the tokens of the move's text, and those that end it."""
        ...


def user_message(prompt: Any, content: str) -> list[Message]:
    """Make a conversation of one message of the user, for episodes without a dataset's prompt."""
    return [{"role": "user", "content": content}]


def text_only(content: Content) -> str:
    """Return what a model is shown, which must be text.

    Args:
        content: What a form shows of a result.

    Raises:
        ConfigurationError: It has pictures, which TRL's rollout functions cannot hand on.
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
