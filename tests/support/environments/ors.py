"""Environments with tools, as clients of ORS meet them."""

from typing import Any

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.tools import ToolResult, tool
from openenv.core.env_server.types import Observation
from openenv.core.exceptions import InvalidRequestError

PICTURE = "aGVsbG8="


class Riddle(Observation):
    """What is asked."""

    prompt: str
    hint: str = Field(default="none")


class RiddleEnvironment(Environment):
    """Has to be told the word that its task holds."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def __init__(self) -> None:
        super().__init__()
        self._word = ""
        self._told: list[str] = []

    def reset(self, word: str = "hello") -> Riddle:
        if word == "broken":
            raise RuntimeError("kaboom in /root/secret.py")
        if word == "refused":
            raise InvalidRequestError("word is 'refused'; expected another one.")
        self._word = word
        return Riddle(prompt=f"Tell me {word}.", reward=0.0, done=word == "nothing")

    def list_tasks(self, split: str) -> list[dict[str, str]]:
        return [{"word": "hello"}, {"word": "world"}]

    @tool
    def tell(self, word: str, times: int = 1) -> ToolResult:
        """Say a word.

        Args:
            word: The word.
            times: How often.
        """
        self._told += [word] * times
        right = word == self._word
        return ToolResult("right" if right else "wrong", reward=float(right), done=right, metadata={"times": times})

    @tool
    def told(self) -> list[str]:
        """List what was said so far."""
        return self._told

    @tool
    def recall(self, pattern: str | None = "all") -> str:
        """Remember.

        Args:
            pattern: What; null for anything.
        """
        return "anything" if pattern is None else pattern

    @tool
    def fall(self, text: str) -> str:
        """Fail.

        Args:
            text: How.
        """
        raise ValueError(text)

    @tool
    def paint(self) -> dict[str, Any]:
        """Show a picture."""
        content = [{"type": "text", "text": "look"}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}]
        return {"content": content, "structured_content": None, "meta": None, "data": None, "is_error": False}

    def task_tools(self) -> list[Any]:
        return [whisper] if self._word == "world" else []


def whisper(word: str) -> str:
    """Say a word quietly.

    Args:
        word: The word.
    """
    return word.lower()
