"""Limits of clients, and answers from the cache, against a scripted server."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from tests.support.models.judge_server import JudgeServer

from openenv.core.llm.cache import AnswerCache
from openenv.core.llm.limits import BudgetExceededError, LimitedClient
from openenv.core.llm_client import LLMClient, LLMResponse, TokenUsage, ToolCall


class Uncounted(LLMClient):
    async def complete(self, prompt: str, **kwargs: Any) -> str:
        return "0.5"


async def test_so_many_at_once_and_no_more() -> None:
    at_once = threading.Barrier(3)

    def reply(_prompt: str) -> str:
        at_once.wait(60)
        return "0.5"

    judge = JudgeServer(reply)
    with judge.server:
        client = LimitedClient(judge.client(), at_once=3)
        answers = await asyncio.gather(*(client.complete(f"prompt {number}") for number in range(6)))
    assert answers == ["0.5"] * 6
    assert judge.at_once == 3


async def test_an_answer_that_does_not_come_is_an_error() -> None:
    released = threading.Event()

    def reply(_prompt: str) -> str:
        released.wait(60)
        return "0.5"

    judge = JudgeServer(reply)
    with judge.server:
        with pytest.raises(TimeoutError, match=r"Expected an answer of http://127.0.0.1:\d+ within 0.05 s"):
            await LimitedClient(judge.client(), timeout_s=0.05).complete("prompt")
        released.set()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_tokens_in_all": 30}, "30 tokens are used; expected fewer than max_tokens_in_all, 30"),
        ({"prices": (1.0, 2.0), "max_cost": 3e-5}, "4e-05 is spent; expected less than max_cost, 3e-05"),
    ],
)
async def test_a_budget_that_is_spent_sends_nothing(limits: dict[str, Any], message: str) -> None:
    judge = JudgeServer(["0.5"])
    with judge.server:
        client = LimitedClient(judge.client(), **limits)
        await client.complete("one")
        await client.complete("two")
        with pytest.raises(BudgetExceededError, match=message):
            await client.complete("three")
    assert len(judge.prompts) == 2


async def test_tokens_that_are_not_counted_keep_no_budget() -> None:
    client = LimitedClient(Uncounted("http://localhost", 8000), max_tokens_in_all=100)
    with pytest.raises(BudgetExceededError, match="does not count tokens"):
        await client.complete("one")


async def test_what_was_answered_before_costs_nothing(tmp_path: Path) -> None:
    judge = JudgeServer(["0.5", "0.6", "0.7"])
    with judge.server:
        first = LimitedClient(judge.client(), cache=tmp_path / "judge.db")
        assert [await first.complete(prompt) for prompt in ("one", "two", "one")] == ["0.5", "0.6", "0.5"]
        first.close()
        again = LimitedClient(judge.client(), cache=tmp_path / "judge.db", max_tokens_in_all=1)
        answer = await again.respond("two")
        assert answer.content == "0.6"
        assert again.used.input_tokens == 0
        other = LimitedClient(judge.client(temperature=1.0), cache=tmp_path / "judge.db")
        assert await other.complete("one") == "0.7", "another temperature is another question"
        again.close()
        other.close()


async def test_conversations_have_the_same_limits_and_the_same_cache(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "one"}]
    judge = JudgeServer(["0.5", "0.6", "0.7"])
    with judge.server:
        client = LimitedClient(judge.client(), prices=(1.0, 2.0), max_cost=5e-5, cache=tmp_path / "judge.db")
        first, again = [await client.complete_with_tools(messages, []) for _ in range(2)]
        assert (first.content, first.usage, first.cost_usd) == ("0.5", TokenUsage(10, 5), 2e-5)
        assert (again.content, again.usage, again.cost_usd) == ("0.5", TokenUsage(10, 5), 0.0)
        tool = {"name": "score", "description": "Score it."}
        other = await client.complete_with_tools(messages, [tool])
        assert other.content == "0.6", "another offer of tools is another question"
        await client.complete("two")
        with pytest.raises(BudgetExceededError, match="is spent"):
            await client.complete_with_tools([*messages, *messages], [])
        client.close()
    assert client.used == TokenUsage(30, 15)


def test_calls_of_tools_are_kept(tmp_path: Path) -> None:
    answer = LLMResponse("", [ToolCall("1", "add", {"a": 1}), ToolCall("2", "add", {}, "no JSON")], cost_usd=0.5)
    with AnswerCache(tmp_path / "a.db") as cache:
        cache.put({"prompt": "one"}, answer)
        kept = cache.get({"prompt": "one"})
    assert kept is not None
    assert (kept.tool_calls, kept.cost_usd) == (answer.tool_calls, 0.0)


def test_a_cache_is_for_several_at_once(tmp_path: Path) -> None:
    def fill(cache: AnswerCache) -> Callable[[], None]:
        async def work() -> None:
            client = LimitedClient(Uncounted("http://localhost", 8000), cache=cache)
            await asyncio.gather(*(client.complete(str(number % 10)) for number in range(50)))

        return lambda: asyncio.run(work())

    with AnswerCache(tmp_path / "a.db") as one, AnswerCache(tmp_path / "a.db") as two:
        threads = [threading.Thread(target=fill(cache)) for cache in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        content = {"client": Uncounted("http://localhost", 8000).identity, "prompt": "3", "options": {}}
        answer = one.get(content)
    assert answer is not None
    assert answer.content == "0.5"


@pytest.mark.level("process")
def test_a_process_that_is_forked_opens_a_cache_for_itself(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    content, answer = {"prompt": "one"}, LLMResponse("0.5")
    with AnswerCache(file) as cache:
        assert not _open_files(file), "not before it is used"
        cache.put(content, answer)
        mine = _open_files(file)
        process = get_context("fork").Process(target=_use, args=(cache, file, mine))
        process.start()
        process.join(60)
        assert process.exitcode == 0
        assert cache.get({"prompt": "two"}) == LLMResponse("0.5", cost_usd=0.0)
    with pytest.raises(sqlite3.ProgrammingError, match="which is closed"):
        cache.get(content)


def _use(cache: AnswerCache, file: Path, of_the_parent: set[str]) -> None:
    """Use a cache in another process than the one that made it."""
    answer = cache.get({"prompt": "one"})
    assert answer is not None
    assert _open_files(file) > of_the_parent
    cache.put({"prompt": "two"}, answer)


def _open_files(file: Path) -> set[str]:
    """Descriptors of this process of a file."""
    return {each.name for each in Path("/dev/fd").iterdir() if os.path.realpath(each) == str(file.resolve())}


@pytest.mark.parametrize("limits", [{"timeout_s": 0}, {"at_once": 0}, {"max_cost": 1.0}])
def test_limits_that_are_none_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        LimitedClient(Uncounted("http://localhost", 8000), **limits)
