"""A process of an MCP server: how it starts, ends, and fails to."""

import asyncio
import os
import sys
from typing import Any

import psutil
import pytest
from mcp import McpError
from tests.support.mcp_servers import command
from tests.support.processes import wait_until_gone
from tests.support.servers import eventually

from openenv.adapters.mcp_server.process import ServerProcess
from openenv.core.exceptions import EnvironmentFailedError, EnvironmentProcessEndedError


async def started(manner: str = "good", timeout_s: float = 30.0) -> ServerProcess:
    return await ServerProcess.start(command(manner), (), timeout_s)


async def ignore(progress: float, total: float | None, message: str | None) -> None:
    """Nobody wants to know."""


async def call(process: ServerProcess, name: str, timeout_s: float = 30.0, /, **arguments: Any) -> str:
    result = await process.call(name, arguments, timeout_s, ignore)
    text: str = result.content[0].text  # type: ignore[union-attr]
    return text


async def test_it_lists_all_pages_and_is_gone_once_it_has_ended() -> None:
    process = await started()
    names = [tool.name for tool in await process.tools(10)]
    pid = int(await call(process, "pid"))
    assert process.alive
    assert names[:3] == ["write", "echo", "pid"]
    assert len(names) > 10
    await process.end()
    wait_until_gone(pid)
    with pytest.raises(EnvironmentProcessEndedError):
        await process.tools(10)


async def test_one_that_does_not_want_to_end_is_killed() -> None:
    process = await started("stays")
    pid = int(await call(process, "pid"))
    await process.end()
    wait_until_gone(pid)


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        ("silent", "did not answer the handshake within 0.5 s"),
        ("ends", "has ended at once"),
        ("old", "protocol version"),
    ],
)
async def test_one_that_can_t_be_started_says_why(manner: str, why: str) -> None:
    with pytest.raises(EnvironmentFailedError, match=f"could not be started: .*{why}"):
        await started(manner, 0.5 if manner == "silent" else 30)


async def test_a_program_that_is_not_there() -> None:
    # The whole path is not for clients.
    with pytest.raises(EnvironmentFailedError, match="started: no-such-program: No such file or directory"):
        await ServerProcess.start(["/home/ann/no-such-program"], (), 10)


async def test_a_program_that_ends_before_anything_was_said() -> None:
    with pytest.raises(EnvironmentFailedError, match="could not be started: it has ended at once"):
        await ServerProcess.start(["false"], (), 30)


@pytest.mark.parametrize("turns", [2, 300])
async def test_whoever_starts_one_may_give_up(turns: int) -> None:
    before = psutil.Process().children()
    starting = asyncio.create_task(started("silent"))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    lives = [task for task in asyncio.all_tasks() if task.get_name() == "mcp-server"]
    await asyncio.wait(lives)
    assert psutil.Process().children() == before


@pytest.mark.parametrize("way", ["die", "deafen"])
async def test_one_that_ends_during_a_call_is_told_of(way: str) -> None:
    process = await started()
    pid = int(await call(process, "pid"))
    with pytest.raises(EnvironmentProcessEndedError) as raised:
        await call(process, way)
    assert raised.value.may_have_happened
    await process.end()
    wait_until_gone(pid)


async def test_one_that_was_killed_between_calls_is_told_of() -> None:
    process = await started()
    pid = int(await call(process, "pid"))
    os.kill(pid, 9)
    with pytest.raises(EnvironmentProcessEndedError):
        await call(process, "pid")
    with pytest.raises(EnvironmentProcessEndedError):
        await process.tools(10)
    await process.end()


async def test_a_call_that_hangs_is_given_up() -> None:
    process = await started()
    pid = int(await call(process, "pid"))
    with pytest.raises(McpError, match="Timed out"):
        await call(process, "hang", 0.2)
    await process.end()
    wait_until_gone(pid)


async def test_a_call_may_be_cancelled_and_others_go_on() -> None:
    process = await started()
    hanging = asyncio.create_task(call(process, "work"))
    await asyncio.sleep(0)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert await call(process, "echo", text="on") == "on"
    await process.end()


async def test_what_is_no_message_is_passed_over() -> None:
    process = await started()
    assert await call(process, "chatter") == "said"
    assert await call(process, "echo", text="x") == "x"
    await process.end()


async def test_an_answer_that_is_none_is_an_error() -> None:
    process = await started()
    with pytest.raises(EnvironmentFailedError, match="answer is none"):
        await call(process, "lie")
    assert await call(process, "echo", text="x") == "x"
    await process.end()


@pytest.mark.parametrize(
    ("manner", "why"),
    [("endless_list", "does not end after 100 pages"), ("no_list", "I have lost it"), ("bad_list", "answer is none")],
)
async def test_a_list_that_is_none_is_an_error(manner: str, why: str) -> None:
    process = await started(manner)
    with pytest.raises(EnvironmentFailedError, match=why):
        await process.tools(10)
    await process.end()


async def test_it_gets_the_variables_that_are_named_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_KEY", "k-123")
    monkeypatch.setenv("OPENENV_TOKEN", "t-456")
    process = await ServerProcess.start(command(), ["NOTES_KEY", "NOT_SET"], 30)
    seen = [await call(process, "variable", name=name) for name in ("NOTES_KEY", "OPENENV_TOKEN", "NOT_SET", "PATH")]
    assert seen == ["k-123", "(none)", "(none)", os.environ["PATH"]]
    await process.end()


def test_it_ends_with_the_loop_that_nobody_closed_it_in() -> None:
    pids = []

    async def leave_it() -> None:
        process = await started()
        pids.append(int(await call(process, "pid")))

    asyncio.run(leave_it())
    wait_until_gone(*pids)


def test_no_file_is_left_open() -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a path of Linux, and no more than names are wanted

    async def start_and_end() -> None:
        for _ in range(3):
            process = await started()
            await process.end()

    asyncio.run(start_and_end())
    before = count()
    asyncio.run(start_and_end())
    eventually(lambda: count() <= before, "the files of ended servers are closed", 5)
    assert sys.__stderr__ is None or not sys.__stderr__.closed
