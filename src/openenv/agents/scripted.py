"""Participants without a model."""

from collections.abc import Callable, Sequence

from openenv.agents.participant import Message, Reply

__all__ = ["ScriptedUser"]


class ScriptedUser:
    """Participant that follows a script.

    Args:
        script: Its messages in their order, with the last of which it ends the conversation; or a function from the
            conversation so far to the next message, a text or a `Reply`.

    Example:
        >>> import asyncio
        >>> user = ScriptedUser(["A table for four, please.", "Thank you."])
        >>> asyncio.run(user.reply([])).text
        'A table for four, please.'
    """

    def __init__(self, script: Sequence[str] | Callable[[Sequence[Message]], str | Reply]) -> None:
        self._script = script

    async def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the next message of the script.

        Raises:
            IndexError: It has none left.
        """
        if callable(self._script):
            written = self._script(messages)
            return written if isinstance(written, Reply) else Reply(written)
        number = sum(message["role"] == "assistant" for message in messages)
        if number >= len(self._script):
            raise IndexError(f"the script has {len(self._script)} messages, and none is left")
        return Reply(self._script[number], ends=number == len(self._script) - 1)
