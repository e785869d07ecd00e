"""What workers ask each other, so that whichever one a client asks can answer for the whole server.

A question takes the way of a request that is handed on (``relay``), as a call whose type no ASGI server makes.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.env_server.workers.relay import Connect, Stream

_QUESTION = "openenv.question"
_ANSWER = "openenv.answer"
# Shorter than what monitoring waits for an answer. A worker that takes longer is held up by an environment.
_PATIENCE_S = 2.0


class Questions:
    """ASGI middleware that answers other workers' questions.

    Args:
        app: The application of this worker, for all other calls.
        answer: Answers a question; both are what JSON can carry.
    """

    def __init__(self, app: ASGIApp, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        if scope["type"] == _QUESTION:
            await send({"type": _ANSWER, "answer": self._answer(scope["question"])})
        else:
            await self._app(scope, receive, send)


class OtherWorkers:
    """The other workers, to be asked.

    Args:
        numbers: Their numbers.
        connect: Opens a stream to one of them.
        patience_s: Seconds to wait for an answer.
    """

    def __init__(self, numbers: Collection[str], connect: Connect, patience_s: float = _PATIENCE_S) -> None:
        self._numbers = sorted(numbers)
        self._connect = connect
        self._patience_s = patience_s

    async def ask(self, question: dict[str, Any]) -> Mapping[str, dict[str, Any] | None]:
        """Put a question to all of them at once.

        Returns:
            Their answers by their numbers; ``None`` for one that has died, or gave none in time.
        """
        answers = await asyncio.gather(*(self._ask(number, question) for number in self._numbers))
        return dict(zip(self._numbers, answers, strict=True))

    async def _ask(self, number: str, question: dict[str, Any]) -> dict[str, Any] | None:
        stream = await self._connect(number)
        try:
            async with asyncio.timeout(self._patience_s):
                return await _answer_over(stream, question)
        except (TimeoutError, ConnectionError):
            return None
        finally:
            await stream.close()


async def _answer_over(stream: Stream, question: dict[str, Any]) -> dict[str, Any] | None:
    await stream.send({"type": _QUESTION, "question": question})
    while (event := await stream.receive()) is not None:
        if event["type"] == _ANSWER:
            answer: dict[str, Any] = event["answer"]
            return answer
    return None
