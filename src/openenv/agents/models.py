"""Participants that a language model plays."""

from collections.abc import Sequence
from typing import Any

from openenv.agents.participant import Message, Reply
from openenv.core.llm.usage import name_of_model
from openenv.core.llm_answers import without_reasoning
from openenv.core.llm_client import LLMClient

__all__ = ["ModelPlayer", "ModelUser"]

PLAYER_INSTRUCTIONS = (
    "You play a game against others, and you want to win. Each message shows you the game as it stands, and how to "
    "write a move. Answer with your move alone."
)

USER_INSTRUCTIONS = """You play a person who talks to an assistant. This is who you are and what you want:

{scenario}

Write only this person's next message: short, in plain words, without quotation marks. Reveal no more at once
than a person would, answer the assistant's questions, and invent nothing that the description above does not give. When
you have what you want, or see that you can't get it, write {end} and nothing after it."""

# A conversation that the participant begins; servers require that its model answers something.
_BEGIN: Message = {"role": "user", "content": "(The conversation begins. Write your first message.)"}


class ModelPlayer:
    """Player of a game, such as an opponent, whose moves a language model writes.

    Args:
        client: Client of the model, with ``complete_with_tools``; `LimitedClient` adds limits, prices and a cache.
        instructions: System prompt.

    Example::

        opponent = ModelPlayer(OpenAIClient("http://localhost", 8000, "Qwen/Qwen3-8B"))
    """

    def __init__(self, client: LLMClient, instructions: str = PLAYER_INSTRUCTIONS) -> None:
        self._client = client
        self._instructions = instructions

    async def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the model's next message, without its reasoning."""
        begun = [] if messages and messages[0]["role"] == "user" else [_BEGIN]
        conversation: list[dict[str, Any]] = [dict(message) for message in (*begun, *messages)]
        system = {"role": "system", "content": self._instructions}
        answer = await self._client.complete_with_tools([system, *conversation], [])
        return Reply(
            without_reasoning(answer.content),
            usage=answer.usage,
            cost_usd=answer.cost_usd,
            model=name_of_model(self._client),
        )


class ModelUser:
    """User of an assistant, whose messages a language model writes.

    Args:
        client: Client of the model, with ``complete_with_tools``; `LimitedClient` adds limits, prices and a cache.
        scenario: Who the user is, what they want and know, in a few sentences.
        instructions: System prompt, with ``{scenario}`` and ``{end}`` where these go.
        end: Text with which the model ends the conversation; no part of the message.

    Example::

        client = OpenAIClient("http://localhost", 8000, "Qwen/Qwen3-8B", temperature=0.7)
        user = ModelUser(client, "You want a table for four on Friday at eight. You don't like to sit outside.")
    """

    def __init__(
        self, client: LLMClient, scenario: str, *, instructions: str = USER_INSTRUCTIONS, end: str = "[end]"
    ) -> None:
        self._player = ModelPlayer(client, instructions.replace("{scenario}", scenario).replace("{end}", end))
        self._end = end

    async def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the user's next message, without the model's reasoning and without the mark of the end."""
        reply = await self._player.reply(messages)
        text, mark, _ = reply.text.partition(self._end)
        return Reply(text.strip(), bool(mark), reply.usage, reply.cost_usd, reply.model)
