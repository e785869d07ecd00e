"""Limits of a language model's client: time, requests at once, tokens, cost; and answers from a cache."""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from openenv.core.llm.cache import AnswerCache
from openenv.core.llm.token_price import TokenPrice
from openenv.core.llm_client import LLMClient, LLMResponse, TokenUsage

__all__ = ["BudgetExceededError", "LimitedClient"]


class BudgetExceededError(RuntimeError):
    """The tokens or the money that a client may spend are spent; nothing was sent."""


class LimitedClient(LLMClient):
    """A client with limits, which judges and participants can share: requests beyond ``at_once`` wait for their turn.

    Refused and lost requests are repeated by the vendors' packages, see ``max_retries`` of `OpenAIClient`.

    Args:
        client: The client that sends the requests.
        timeout_s: Seconds that an answer may take, repetitions included, from when its turn has come.
        at_once: Requests that may be under way at the same time, for each event loop.
        max_tokens_in_all: Tokens, of prompts and answers, after which nothing is sent any more.
        prices: Of a million tokens of prompts, and of a million tokens of answers, in US dollars. Answers get their
            cost by them where the server reports none.
        max_cost: Cost, by ``prices``, after which nothing is sent any more.
        cache: File of answers, from which what was sent before is answered; it costs nothing and counts for nothing.

    Attributes:
        used: Tokens so far.

    Raises:
        ValueError: A limit is not above 0, or there is a ``max_cost`` without ``prices``.

    Example:
        >>> from openenv.core.llm_client import LLMClient
        >>> class Stub(LLMClient):
        ...     async def complete(self, prompt, **kwargs):
        ...         return "0.5"
        >>> client = LimitedClient(Stub("http://localhost", 8000), timeout_s=30, at_once=4)
        >>> asyncio.run(client.complete("Rate this."))
        '0.5'
    """

    def __init__(
        self,
        client: LLMClient,
        *,
        timeout_s: float | None = 120.0,
        at_once: int = 16,
        max_tokens_in_all: int | None = None,
        prices: tuple[float, float] | None = None,
        max_cost: float | None = None,
        cache: str | Path | AnswerCache | None = None,
    ) -> None:
        super().__init__(client.endpoint, client.port)
        limits = {"timeout_s": timeout_s, "at_once": at_once, "max_tokens_in_all": max_tokens_in_all}
        for name, value in {**limits, "max_cost": max_cost}.items():
            if value is not None and not value > 0:
                raise ValueError(f"Expected {name} above 0, got {value}.")
        if max_cost is not None and prices is None:
            raise ValueError("Expected prices beside max_cost: of a million tokens of prompts, and of answers.")
        self.used = TokenUsage(0, 0)
        self._client = client
        self._timeout_s = timeout_s
        self._at_once = at_once
        self._max_tokens = max_tokens_in_all
        self._price = None if prices is None else TokenPrice(input=prices[0], output=prices[1])
        self._max_cost = max_cost
        self._cache = cache if isinstance(cache, AnswerCache | None) else AnswerCache(cache)
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def identity(self) -> dict[str, Any]:
        """That of the client behind it."""
        return self._client.identity

    @property
    def cost(self) -> float:
        """What was spent so far, by ``prices``; 0 without them."""
        return self._cost_of(self.used) or 0.0

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        """Return the model's answer to a prompt.

        Raises:
            BudgetExceededError: The budget is spent.
            TimeoutError: The answer took longer than ``timeout_s``.
        """
        return (await self.respond(prompt, **kwargs)).content

    async def respond(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Return the model's answer to a prompt with its number of tokens.

        Raises:
            BudgetExceededError: The budget is spent.
            TimeoutError: The answer took longer than ``timeout_s``.
        """
        content = {"client": self._client.identity, "prompt": prompt, "options": kwargs}
        return await self._answer(content, self._client.respond(prompt, **kwargs))

    async def complete_with_tools(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **kwargs: Any
    ) -> LLMResponse:
        """Return the model's answer to a conversation with tools.

        Raises:
            BudgetExceededError: The budget is spent.
            TimeoutError: The answer took longer than ``timeout_s``.
            NotImplementedError: The client behind it can't do this.
        """
        content = {"client": self._client.identity, "messages": messages, "tools": tools, "options": kwargs}
        return await self._answer(content, self._client.complete_with_tools(messages, tools, **kwargs))

    def close(self) -> None:
        """Close the cache."""
        if self._cache is not None:
            self._cache.close()

    async def _answer(self, content: Mapping[str, Any], request: Coroutine[Any, Any, LLMResponse]) -> LLMResponse:
        """Return the answer to a request, from the cache or by sending it."""
        with closing(request):  # which is not sent where the cache has the answer, or the budget is spent
            if self._cache is not None and (kept := await asyncio.to_thread(self._cache.get, content)) is not None:
                return kept
            async with self._turn():
                self._check_budget()
                answer = await self._sent(request)
        self._count(answer)
        if answer.cost_usd is None and answer.usage is not None:
            answer = replace(answer, cost_usd=self._cost_of(answer.usage))
        if self._cache is not None:
            await asyncio.to_thread(self._cache.put, content, answer)
        return answer

    def _cost_of(self, usage: TokenUsage) -> float | None:
        """Return the cost of tokens; ``None`` without prices."""
        return None if self._price is None else self._price.of(usage.input_tokens, usage.output_tokens)

    async def _sent(self, request: Awaitable[LLMResponse]) -> LLMResponse:
        timer = asyncio.timeout(self._timeout_s)
        try:
            async with timer:
                return await request
        except TimeoutError:
            if not timer.expired():
                raise
            where = self._client.base_url
            raise TimeoutError(f"Expected an answer of {where} within {self._timeout_s:g} s, got none.") from None

    def _turn(self) -> asyncio.Semaphore:
        # A semaphore belongs to one event loop, and plain steps wait for judges in another than async ones.
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._at_once))

    def _check_budget(self) -> None:
        tokens = self.used.input_tokens + self.used.output_tokens
        if self._max_tokens is not None and tokens >= self._max_tokens:
            raise BudgetExceededError(
                f"{tokens} tokens are used; expected fewer than max_tokens_in_all, {self._max_tokens}."
            )
        if self._max_cost is not None and self.cost >= self._max_cost:
            raise BudgetExceededError(f"{self.cost:.4g} is spent; expected less than max_cost, {self._max_cost:g}.")

    def _count(self, answer: LLMResponse) -> None:
        if answer.usage is not None:
            self.used += answer.usage
        elif self._max_tokens is not None or self._max_cost is not None:
            raise BudgetExceededError(
                f"The server at {self._client.base_url} does not count tokens, so max_tokens_in_all and max_cost can't "
                "be kept. Take the limits off, or count in the client's respond()."
            )
