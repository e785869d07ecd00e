"""Interface of participants."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from openenv.core.env_server.interfaces import Message
from openenv.core.llm_client import TokenUsage

__all__ = ["Message", "Participant", "Reply"]


@dataclass(frozen=True)
class Reply:
    """Reply of a participant.

    Attributes:
        text: The text; empty only where it ends the conversation.
        ends: Whether the participant ends the conversation with it.
        usage: Tokens of its model; ``None`` without a model, or one whose server does not count.
        cost_usd: Their cost in US dollars; ``None`` where it is not known.
        model: Name of its model; ``None`` without one.
    """

    text: str
    ends: bool = False
    usage: TokenUsage | None = None
    cost_usd: float | None = None
    model: str | None = None


@runtime_checkable
class Participant(Protocol):
    """User or opponent, which replies to a conversation. It keeps nothing of it, and serves many episodes at once.

    Example:
        >>> class Echo:
        ...     async def reply(self, messages):
        ...         return Reply(messages[-1]["content"])
        >>> isinstance(Echo(), Participant)
        True
    """

    async def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the participant's next message.

        Args:
            messages: The conversation so far, from the participant's point of view: ``assistant`` is the role of its
                own messages, ``user`` that of all others. Empty where the participant begins it.
        """
        ...
