import asyncio
from random import Random

import pytest

from game_2048_env import Game2048Action, Game2048Env, Game2048Observation
from game_2048_env.server.game_2048_environment import Game2048Environment
from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openspiel_env import OpenSpielAction, OpenSpielEnv


async def play(url: str, seed: int) -> list[Game2048Observation]:
    random = Random(seed)
    async with Game2048Env(base_url=url) as env:
        seen = [(await env.reset(seed=seed)).observation]
        for _ in range(30):
            seen.append((await env.step(Game2048Action(move=random.choice(seen[-1].legal_moves)))).observation)
        return seen


def play_alone(seed: int) -> list[Game2048Observation]:
    random, environment = Random(seed), Game2048Environment()
    seen = [environment.reset(seed=seed)]
    for _ in range(30):
        seen.append(environment.step(Game2048Action(move=random.choice(seen[-1].legal_moves))))
    return seen


async def test_sixty_four_sessions_at_once_play_as_alone(game_2048_url: str) -> None:
    together = await asyncio.gather(*(play(game_2048_url, seed) for seed in range(64)))
    assert together == [play_alone(seed) for seed in range(64)]


async def test_the_numbered_client_trains_on_it(game_2048_url: str) -> None:
    async with OpenSpielEnv(base_url=game_2048_url) as env:
        result = await env.reset(seed=1)
        total = 0.0
        for _ in range(20):
            assert len(result.observation.info_state) == 16
            move = result.observation.legal_actions[0]
            result = await env.step(OpenSpielAction(action_id=move, game_name="2048"))
            total += result.reward or 0.0
        assert f"Score: {total:g}." in result.observation.text
        assert (await env.state()).game_name == "2048"


async def test_what_is_no_move_is_refused_and_the_board_stays(game_2048_url: str) -> None:
    async with GenericEnvClient(base_url=game_2048_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"move": "left"})
        before = await env.reset(seed=1)  # two tiles at the left edge
        assert before.observation["legal_moves"] == ["up", "right", "down"]
        for wrong in ({"move": "north"}, {"move": 3}, {}, {"action_id": 4}):
            with pytest.raises(RequestRejectedError) as refused:
                await env.step(wrong)
            assert refused.value.code == "VALIDATION_ERROR"
        for blocked in ({"move": "left"}, {"action_id": 3}):
            with pytest.raises(RequestRejectedError, match="'left' is not possible now; play one of up, right, down"):
                await env.step(blocked)
        assert (await env.state())["step_count"] == 0
        assert (await env.step({"move": "up"})).reward == 4.0


async def test_a_fork_gets_the_same_tiles(game_2048_url: str) -> None:
    async with Game2048Env(base_url=game_2048_url) as env:
        await env.reset(seed=1)
        forks = await env.fork(2)
        boards = [(await each.step(Game2048Action(move="up"))).observation.board for each in (env, *forks)]
        assert boards[0] == boards[1] == boards[2]
