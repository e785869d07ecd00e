import asyncio
from typing import Any

import pytest

from coding_env import CodeAction, CodingEnv
from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient

pytestmark = pytest.mark.needs("sandbox")


async def test_an_episode_over_the_wire(coding_url: str) -> None:
    async with CodingEnv(base_url=coding_url) as env:
        result = await env.reset(seed=1)
        assert (result.observation.stdout, result.observation.stderr, result.observation.exit_code) == ("", "", 0)
        assert (result.reward, result.done) == (0.0, False)
        await env.step(CodeAction(code="x = 6 * 7"))
        result = await env.step(CodeAction(code="print(x)"))
        assert (result.observation.stdout, result.observation.exit_code, result.reward) == ("42\n", 0, 0.1)
        result = await env.step(CodeAction(code="1 / 0"))
        assert "ZeroDivisionError" in result.observation.stderr
        state = await env.state()
        assert (state.step_count, state.last_exit_code) == (3, 1)
        await env.reset()
        assert "NameError" in (await env.step(CodeAction(code="x"))).observation.stderr


async def test_what_went_wrong_is_told_and_the_next_step_works(coding_url: str) -> None:
    async with CodingEnv(base_url=coding_url) as env:
        await env.reset()
        result = await env.step(CodeAction(code="while True: pass"))
        assert result.observation.exit_code == 124
        assert result.observation.stderr == (
            "[sandbox] The code was ended after 2 s, the longest that it may take. Variables are lost: the next code "
            "runs in a fresh interpreter.\n"
        )
        result = await env.step(CodeAction(code="import sys\nprint('y' * 10_000)\nsys.stderr.write('no newline')"))
        assert len(result.observation.stdout) == 2000
        assert result.observation.stderr == "no newline\n[sandbox] Output was cut after 2000 bytes.\n"


async def test_64_sessions_at_once_give_what_each_gives_alone(coding_url: str) -> None:
    program = ["import random; kept = random.random()", "print({1, 'a', None, 'b'}, kept)", "random.randint(1, 10**9)"]

    async def play(seed: int) -> list[Any]:
        async with CodingEnv(base_url=coding_url, message_timeout_s=60) as env:
            await env.reset(seed=seed)
            return [(await env.step(CodeAction(code=code))).observation.model_dump() for code in program]

    together = await asyncio.gather(*(play(seed % 32) for seed in range(64)))
    assert together[:32] == together[32:]
    assert len({str(episode) for episode in together}) == 32
    assert await play(5) == together[5]


async def test_what_is_refused(coding_url: str) -> None:
    async with GenericEnvClient(base_url=coding_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"code": "1"})
        for wrong in (0, -1, 1.5, "three", [3]):
            with pytest.raises(RequestRejectedError):
                await env.reset(max_steps=wrong)
        await env.reset(max_steps=2)
        assert not (await env.step({"code": "1"})).done
        for wrong_action in ({}, {"code": 5}, {"code": "1", "more": 1}):
            with pytest.raises(RequestRejectedError):
                await env.step(wrong_action)
        assert (await env.step({"code": "2"})).done
        with pytest.raises(EpisodeOrderError):
            await env.step({"code": "3"})
