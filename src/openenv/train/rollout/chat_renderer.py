"""Actions as text: an answer is one action, written as the environment's `ActionText` reads it."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from openenv.adapters.text import ActionText, observation_text
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, RequestRejectedError
from openenv.train.rollout.dialogue import CACHE_SIZE, ChatDialogue, Dialogue, first_content
from openenv.train.rollout.playing import Move, Outcome
from openenv.train.tools.contents import call_content

__all__ = ["ChatTextDialogue", "MessagesOf", "TextDialogue", "text_of"]

MessagesOf = Callable[[Any, str], list[dict[str, Any]]]
"""Makes the conversation up to the first answer, of the dataset's prompt and what the user says first."""


class TextDialogue:
    """Episodes as a dialogue in which each answer is the text of one action.

    Args:
        dialogue: How the texts become tokens.
        actions: Reads actions from text.

    Attributes:
        stop_ids: Tokens that end an answer.
        max_action_tokens: How many tokens an answer may have.
        pad_id: A token to pad with.
    """

    def __init__(self, dialogue: Dialogue, actions: ActionText) -> None:
        self._dialogue = dialogue
        self._actions = actions
        self.stop_ids = dialogue.stop_ids
        self.max_action_tokens = dialogue.max_action_tokens
        self.pad_id = dialogue.pad_id
        # Small policies say the same things again and again.
        self._move = lru_cache(CACHE_SIZE)(self._read)

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text."""
        return observation_text(result.observation)

    def problem(self, result: StepResult[Any]) -> str | None:
        """Return ``None``: an action that is done has no problem."""
        return None

    def refusal(self, error: RequestRejectedError) -> str:
        """Return the refusal's sentence."""
        return error.message

    def opening(self, prompt: Any, observation: str) -> list[int]:
        """Return the first observation's tokens."""
        return self._dialogue.opening(observation)

    def read(self, written: Sequence[int]) -> list[Move]:
        """Return the one action of an answer, or what it counts as."""
        return [self._move(self._dialogue.action_text(written))]

    def reply(self, written: Sequence[int], moves: Sequence[Move], outcomes: Sequence[Outcome]) -> list[int]:
        """Return the tokens of the next observation, and of why the answer was no legal action."""
        return self._dialogue.between(written, outcomes[-1].observation, outcomes[-1].problem)

    def _read(self, text: str) -> Move:
        reading = self._actions.read(text)
        return Move(text, reading.action, reading.problem)


class ChatTextDialogue(TextDialogue):
    """The same for conversations that begin with the dataset's prompt.

    Args:
        dialogue: How the texts become tokens.
        actions: Reads actions from text.
        instructions: How an action is written; it comes before the first observation.
        messages_of: Makes the conversation up to the first answer.
    """

    def __init__(self, dialogue: ChatDialogue, actions: ActionText, instructions: str, messages_of: MessagesOf) -> None:
        super().__init__(dialogue, actions)
        self._chat = dialogue
        self._instructions = instructions
        self._messages_of = messages_of

    def shown(self, result: StepResult[Any]) -> str:
        """Return the observation's text.

        Raises:
            ConfigurationError: It has pictures.
        """
        text_of(result)
        return super().shown(result)

    def opening(self, prompt: Any, observation: str) -> list[int]:
        """Return the tokens of the dataset's prompt, the instructions and the first observation."""
        return self._chat.opening_of(self._messages_of(prompt, first_content(self._instructions, observation)))


def text_of(result: StepResult[Any]) -> str:
    """Return what a model is shown of a result, which must be text.

    Raises:
        ConfigurationError: It has pictures, which TRL's rollout functions cannot hand on.
    """
    content = call_content(result)
    if isinstance(content, str):
        return content
    raise ConfigurationError(
        "The environment shows pictures, and TRL takes none from a rollout_func. Train with environment_factory."
    )
