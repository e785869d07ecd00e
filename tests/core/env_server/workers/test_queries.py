"""Queries between workers, over real streams."""

import asyncio
import socket
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from openenv.core.env_server.workers.forwarding import OtherWorkers, QueryMiddleware, Stream, answer_forwarded


class Worker:
    """The other end of a stream, as a worker that holds sessions has it."""

    def __init__(self, number: str, *, hangs: bool = False, dies: bool = False) -> None:
        self.number = number
        self.called: list[str] = []
        self._hangs = hangs
        self._dies = dies

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._dies:
            raise SystemError("gone")
        return {"worker": self.number, "asked": question}

    async def serve(self, line: socket.socket) -> None:
        stream = await Stream.over(line)
        if self._hangs:
            while await stream.receive() is not None:
                pass
            await stream.close()
        else:
            await answer_forwarded(QueryMiddleware(self._app, self.answer), {}, stream)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.called.append(scope["type"])


class Workers:
    """Connects to workers by their numbers, as a supervisor lets them."""

    def __init__(self, *workers: Worker) -> None:
        self._workers = {worker.number: worker for worker in workers}
        self.serving: list[asyncio.Task[None]] = []

    async def connect(self, number: str) -> Stream:
        ours, theirs = socket.socketpair()
        worker = self._workers.get(number)
        if worker is None:
            theirs.close()
        else:
            self.serving.append(asyncio.create_task(worker.serve(theirs)))
        return await Stream.over(ours)

    async def ask(self, *numbers: str, patience_s: float = 60) -> dict[str, Any]:
        descriptors = open_files()
        answers = await OtherWorkers(numbers, self.connect, patience_s).query({"about": "x", "limit": 3})
        await asyncio.gather(*self.serving)
        assert open_files() <= descriptors, "streams are closed"
        return dict(answers)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


QUESTION = {"about": "x", "limit": 3}


async def test_every_other_worker_answers() -> None:
    workers = Workers(Worker("1"), Worker("2"))
    assert await workers.ask("2", "1") == {
        "1": {"worker": "1", "asked": QUESTION},
        "2": {"worker": "2", "asked": QUESTION},
    }


async def test_nobody_is_asked_where_there_is_nobody() -> None:
    assert await Workers().ask() == {}


async def test_one_that_is_gone_or_fails_or_hangs_keeps_no_other_s_answer_away() -> None:
    workers = Workers(Worker("1"), Worker("2", hangs=True), Worker("3", dies=True))
    answers = await workers.ask("1", "2", "3", "4", patience_s=0.3)
    assert answers == {"1": {"worker": "1", "asked": QUESTION}, "2": None, "3": None, "4": None}


async def test_other_calls_reach_the_application() -> None:
    worker = Worker("1")
    app = QueryMiddleware(worker._app, worker.answer)
    for kind in ("http", "websocket", "lifespan"):
        await app({"type": kind}, _nothing, _refuse)
    assert worker.called == ["http", "websocket", "lifespan"]


async def _nothing() -> dict[str, Any]:
    return {}


async def _refuse(message: Any) -> None:
    raise AssertionError(f"nothing is to be sent, got {message}")
