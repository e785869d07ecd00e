import asyncio

import pytest

from catch_env import CatchAction, CatchEnv
from catch_env.player import make_player
from openenv.core.exceptions import EpisodeOrderError, InvalidAnswerError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openspiel_env import OpenSpielAction, OpenSpielEnv


async def catch(url: str, seed: int) -> float:
    async with CatchEnv(base_url=url) as env:
        player = make_player(seed)
        result = await env.reset(seed=seed)
        while not result.done:
            result = await env.step(player(result.observation))
        return result.reward or 0.0


async def test_a_training_batch_plays_at_once(catch_url: str) -> None:
    assert await asyncio.gather(*(catch(catch_url, seed) for seed in range(128))) == [1.0] * 128


async def test_other_words_are_refused_and_the_ball_stays_in_the_air(catch_url: str) -> None:
    async with GenericEnvClient(base_url=catch_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"move": "stay"})
        await env.reset(seed=1)
        for wrong in ({"move": "up"}, {"move": "LEFT"}, {"move": 1}, {}, {"action_id": 0}):
            with pytest.raises(RequestRejectedError) as refused:
                await env.step(wrong)
            assert refused.value.code == "VALIDATION_ERROR"
        with pytest.raises(RequestRejectedError) as refused:
            await env.step(OpenSpielAction(action_id=2).model_dump())
        assert "left, stay or right" in refused.value.errors[0]["msg"]
        result = await env.step({"move": "left"})
        assert (result.observation["row"], result.observation["paddle"]) == (1, 1)
        assert set(result.observation) == {"metadata", "ball", "paddle", "row"}


async def test_a_client_of_the_numbered_games_is_told_so_at_the_reset(catch_url: str) -> None:
    async with OpenSpielEnv(base_url=catch_url) as env:
        with pytest.raises(InvalidAnswerError, match="OpenSpielObservation"):
            await env.reset(seed=1)


async def test_a_fork_goes_on_from_the_same_board(catch_url: str) -> None:
    async with CatchEnv(base_url=catch_url) as env:
        await env.reset(seed=1)
        await env.step(CatchAction(move="left"))
        (fork,) = await env.fork(1)
        await env.step(CatchAction(move="right"))
        observation = (await fork.step(CatchAction(move="left"))).observation
        assert (observation.ball, observation.paddle, observation.row) == (4, 0, 2)
