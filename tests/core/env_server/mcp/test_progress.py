"""What a tool reports, on its way to the agent."""

import asyncio

import pytest

from openenv.core.env_server.mcp.progress import Progress


class Agent:
    """Keeps what it is sent; reads only while it is told to."""

    def __init__(self) -> None:
        self.got: list[tuple[float, str]] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def take(self, fraction: float, message: str) -> None:
        await self.reads.wait()
        self.got.append((fraction, message))


async def test_each_report_is_sent() -> None:
    agent = Agent()
    async with Progress(agent.take) as progress:
        for step in (1, 2, 3):
            progress.report(step / 4, f"{step}")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert agent.got == [(0.25, "1"), (0.5, "2"), (0.75, "3")]


async def test_only_the_newest_is_sent_where_the_agent_is_slow() -> None:
    agent = Agent()
    agent.reads.clear()
    async with Progress(agent.take) as progress:
        progress.report(0.0, "first")
        await asyncio.sleep(0)
        for step in range(1, 1000):
            progress.report(step / 1000, "")
        agent.reads.set()
    assert agent.got == [(0.0, "first"), (0.999, "")]


async def test_progress_increases() -> None:
    agent = Agent()
    async with Progress(agent.take) as progress:
        for fraction in (0.5, 0.5, 0.2, -1.0):
            progress.report(fraction, "")
            await asyncio.sleep(0)
    assert agent.got == [(0.5, "")]


async def test_the_last_report_comes_before_the_end() -> None:
    agent = Agent()
    async with Progress(agent.take) as progress:
        progress.report(1.0, "done")
    assert agent.got == [(1.0, "done")]


async def test_a_call_that_fails_waits_for_nobody() -> None:
    agent = Agent()
    agent.reads.clear()
    with pytest.raises(ZeroDivisionError):
        await fail(agent)
    assert agent.got == []


async def fail(agent: Agent) -> None:
    async with Progress(agent.take) as progress:
        progress.report(0.5, "")
        await asyncio.sleep(0)
        raise ZeroDivisionError
