"""Conversation of an episode with a participant."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from openenv.agents.participant import Message, Participant, Reply
from openenv.core.background_loop import background_loop, in_event_loop
from openenv.core.exceptions import ClientModeError, ParticipantFailedError
from openenv.core.wire.redaction import message_of
from openenv.core.wire.results import NO_REPLIES, PARTICIPANTS, ParticipantUsage, participants_of

__all__ = ["Chat", "participants_metadata"]


class Chat:
    """Conversation with a participant in one episode, and what it has used.

    A participant that fails leaves the conversation as it was, so that the same text may be sent once more.

    Args:
        participant: The participant.
        name: Its name in the record of the episode.

    Attributes:
        name: As the argument.
        messages: The conversation, from the participant's point of view.
        usage: What the participant has used so far.

    Example:
        >>> from openenv.agents import ScriptedUser
        >>> chat = Chat(ScriptedUser(["A table for four, please.", "At eight."]))
        >>> chat.send().text
        'A table for four, please.'
        >>> chat.send("When?").ends
        True
        >>> chat.usage.replies
        2
    """

    def __init__(self, participant: Participant, name: str = "user") -> None:
        self.name = name
        self.messages: list[Message] = []
        self.usage = NO_REPLIES
        self._participant = participant

    async def send_async(self, text: str | None = None) -> Reply:
        """Send the participant a message, and return its reply.

        Args:
            text: The message; ``None`` where the participant begins the conversation.

        Raises:
            ParticipantFailedError: It raised, or wrote nothing.
        """
        sent: list[Message] = [] if text is None else [{"role": "user", "content": text}]
        try:
            reply = await self._participant.reply([*self.messages, *sent])
        except Exception as error:  # whatever a participant raises, it is no fault of the agent
            raise self.failure(message_of(error)) from error
        self.usage += _usage_of(reply)
        if not reply.text.strip() and not reply.ends:
            raise self.failure("Expected a message, got an empty one.")
        self.messages += [*sent, {"role": "assistant", "content": reply.text}]
        return reply

    def send(self, text: str | None = None) -> Reply:
        """Do as ``send_async``, from code that blocks.

        Args:
            text: The message; ``None`` where the participant begins the conversation.

        Raises:
            ParticipantFailedError: It raised, or wrote nothing.
            ClientModeError: This thread runs an event loop, which must not block.
        """
        if in_event_loop():
            raise ClientModeError("Chat.send blocks, and this thread runs an event loop: await send_async.")
        return background_loop().run(self.send_async(text))

    def failure(self, reason: str) -> ParticipantFailedError:
        """Return the error of a participant that fails, with what it has used so far; to be raised.

        Args:
            reason: The reason, in words.
        """
        return ParticipantFailedError(self.name, reason, asdict(self.usage))

    def snapshot(self) -> dict[str, Any]:
        """Return the conversation and what was used, as JSON can hold them, for an environment's ``snapshot``."""
        return {"messages": list(self.messages), PARTICIPANTS: {self.name: asdict(self.usage)}}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a snapshot of a chat of the same name.

        Args:
            snapshot: What ``snapshot`` returned.
        """
        self.messages = list(snapshot["messages"])
        self.usage = participants_of(snapshot[PARTICIPANTS])[self.name]


def participants_metadata(chats: Iterable[Chat]) -> dict[str, Any]:
    """Return what participants have used so far in an episode, for the metadata of an observation.

    Args:
        chats: The conversations with them, each under another name.

    Example:
        >>> from openenv.agents import ScriptedUser
        >>> participants_metadata([Chat(ScriptedUser(["Hello."]))])["participants"]["user"]["replies"]
        0
    """
    return {PARTICIPANTS: {chat.name: asdict(chat.usage) for chat in chats}}


def _usage_of(reply: Reply) -> ParticipantUsage:
    if reply.usage is not None:
        tokens = reply.usage
        return ParticipantUsage(1, tokens.input_tokens, tokens.output_tokens, reply.cost_usd, reply.model)
    return ParticipantUsage(1, 0, 0, 0.0) if reply.model is None else ParticipantUsage(1, model=reply.model)
