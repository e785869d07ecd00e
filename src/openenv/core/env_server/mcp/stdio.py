"""MCP over standard input and output, for the one agent that started this process."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from typing import Any, NamedTuple, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from openenv.core.env_server.mcp.agent import Agent, Served
from openenv.core.env_server.mcp.handlers import Requests

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_Receiving: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
_Sending: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]


class Streams(NamedTuple):
    """Streams of an agent's messages and of the answers."""

    reading: TextIOWrapper
    writing: TextIOWrapper

    @classmethod
    def take(cls) -> "Streams":
        """Reserve standard input and output for messages.

        From now on, output of the environment, its libraries and their child processes goes to standard error, and
        their standard input is empty.
        """
        sys.stdout.flush()
        reading, writing = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return cls(
            TextIOWrapper(os.fdopen(reading, "rb"), encoding="utf-8", errors="replace"),
            TextIOWrapper(os.fdopen(writing, "wb"), encoding="utf-8", newline="\n"),
        )


async def serve_stdio(served: Served, task: Mapping[str, Any], streams: Streams) -> None:
    """Serve one agent until it closes its side, or a signal arrives.

    Args:
        served: Sessions and settings, of which nothing is served over the network.
        task: Arguments for the environment's ``reset``.
        streams: The agent's messages, and the answers.
    """
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _Signalled(served, number).end)
    await served.sessions.start()
    agent = Agent(served, None, task)
    server = Requests(agent, served).server
    try:
        sending, receiving = anyio.create_memory_object_stream[SessionMessage | Exception]()
        async with (
            stdio_server(anyio.wrap_file(streams.reading), anyio.wrap_file(streams.writing)) as (reads, writes),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_pass_on, reads, sending)
            await server.run(receiving, writes, server.create_initialization_options())
    finally:
        agent.close()
        await served.sessions.close_all()


async def _pass_on(reading: _Receiving, sending: _Sending) -> None:
    """Pass on valid messages only: the SDK would answer invalid ones, and fails once the agent has disconnected."""
    async with sending:
        async for message in reading:
            if isinstance(message, Exception):
                logger.warning("the agent sent what is no message of MCP: %.200s", message)
            else:
                await sending.send(message)


class _Signalled:
    """Signal handler that ends the process in order: the thread that awaits the next message can't be interrupted."""

    def __init__(self, served: Served, number: int) -> None:
        self._served = served
        self._number = number
        self._ending: asyncio.Task[None] | None = None

    def end(self) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        await self._served.sessions.close_all()
        signal.signal(self._number, signal.SIG_DFL)
        signal.raise_signal(self._number)
