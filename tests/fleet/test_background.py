"""What runs beside the fleet: errors are logged, and lasting work goes on after them."""

import asyncio
import logging

import pytest

from openenv.fleet.background import BackgroundTasks


async def test_an_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise RuntimeError("no room")

    tasks = BackgroundTasks()
    with caplog.at_level(logging.ERROR, "openenv.fleet"):
        await asyncio.wait([tasks.run(fail())])
        await asyncio.sleep(0)  # the callback of the task's end comes in a turn of its own
    assert "no room" in caplog.text


async def test_lasting_work_starts_again_until_it_is_done(caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[int] = []

    async def fail_twice() -> None:
        attempts.append(len(attempts))
        if len(attempts) < 3:
            raise RuntimeError(f"attempt {len(attempts)}")

    tasks = BackgroundTasks()
    with caplog.at_level(logging.ERROR, "openenv.fleet"):
        await asyncio.wait_for(tasks.run_lasting("counting", fail_twice), 60)
    assert attempts == [0, 1, 2]
    assert [record.getMessage() for record in caplog.records] == ["counting failed; it starts again"] * 2


async def test_what_runs_is_cancelled_at_the_end() -> None:
    tasks = BackgroundTasks()
    endless = tasks.run_lasting("waiting", asyncio.Event().wait)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await tasks.close()
    assert endless.cancelled()
