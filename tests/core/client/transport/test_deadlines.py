"""Answers that do not come in time are given up on, each at its own deadline."""

import asyncio
from typing import Any

import pytest

from openenv.core.client.transport.deadlines import Deadlines

AT_ONCE, SOON_S, NEVER_S, HANGS_S = 0.0, 0.01, 3600.0, 60.0


class Waiting:
    """Answers that are waited for, and in which order they expired."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines(self.loop)
        self.expired: list[tuple[asyncio.Future[Any], float]] = []

    def add(self, timeout_s: float) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self.loop.create_future()
        self.deadlines.add(answer, timeout_s, self.expire)
        return answer

    def expire(self, answer: asyncio.Future[Any], timeout_s: float) -> None:
        self.expired.append((answer, timeout_s))
        answer.set_result(None)


@pytest.mark.parametrize("timeouts", [(SOON_S, NEVER_S), (NEVER_S, SOON_S), (NEVER_S, AT_ONCE, NEVER_S)])
async def test_the_one_that_is_overdue_expires(timeouts: tuple[float, ...]) -> None:
    waiting = Waiting()
    answers = [waiting.add(timeout_s) for timeout_s in timeouts]
    overdue = min(timeouts)
    async with asyncio.timeout(HANGS_S):
        await answers[timeouts.index(overdue)]
    assert waiting.expired == [(answers[timeouts.index(overdue)], overdue)]
    assert sum(answer.done() for answer in answers) == 1


async def test_each_expires_at_its_own_deadline() -> None:
    waiting = Waiting()
    first, second = waiting.add(AT_ONCE), waiting.add(SOON_S)
    async with asyncio.timeout(HANGS_S):
        await first
        await second
    assert waiting.expired == [(first, AT_ONCE), (second, SOON_S)]


async def test_one_that_was_removed_does_not_expire() -> None:
    waiting = Waiting()
    removed = waiting.add(AT_ONCE)
    waiting.deadlines.remove(removed)
    later = waiting.add(SOON_S)
    async with asyncio.timeout(HANGS_S):
        await later
    assert waiting.expired == [(later, SOON_S)]


async def test_an_answer_may_be_waited_for_while_others_expire() -> None:
    waiting = Waiting()
    answers: list[asyncio.Future[Any]] = []

    def expire(answer: asyncio.Future[Any], timeout_s: float) -> None:
        answers.append(waiting.add(timeout_s))
        answer.set_result(None)

    first: asyncio.Future[Any] = waiting.loop.create_future()
    waiting.deadlines.add(first, AT_ONCE, expire)
    async with asyncio.timeout(HANGS_S):
        await first
        await answers[0]
    assert waiting.expired == [(answers[0], AT_ONCE)]
