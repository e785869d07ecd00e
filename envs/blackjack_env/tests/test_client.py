import asyncio

import pytest

from blackjack_env import BlackjackAction, BlackjackEnv, BlackjackObservation
from blackjack_env.player import make_player
from blackjack_env.server.blackjack_environment import BlackjackEnvironment
from openenv.core.exceptions import EpisodeOrderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openspiel_env import OpenSpielAction, OpenSpielEnv, OpenSpielState


async def play(url: str, seed: int) -> list[BlackjackObservation]:
    async with BlackjackEnv(base_url=url) as env:
        player = make_player(seed)
        seen = [(await env.reset(seed=seed)).observation]
        while not seen[-1].done:
            seen.append((await env.step(player(seen[-1]))).observation)
        return seen


def play_alone(seed: int) -> list[BlackjackObservation]:
    environment, player = BlackjackEnvironment(), make_player(seed)
    seen = [environment.reset(seed=seed)]
    while not seen[-1].done:
        seen.append(environment.step(player(seen[-1])))
    return seen


async def test_sixty_four_sessions_at_once_play_as_alone(blackjack_url: str) -> None:
    together = await asyncio.gather(*(play(blackjack_url, seed) for seed in range(64)))
    assert together == [play_alone(seed) for seed in range(64)]


async def test_the_numbered_client_trains_on_it(blackjack_url: str) -> None:
    async with OpenSpielEnv(base_url=blackjack_url) as env:
        for seed in range(5):
            result = await env.reset(seed=seed)
            assert (len(result.observation.info_state), result.observation.legal_actions) == (189, [0, 1])
            result = await env.step(OpenSpielAction(action_id=1, game_name="blackjack"))
            assert (result.done, result.observation.game_phase) == (True, "terminal")
            assert result.reward in (-1.0, 0.0, 1.0)
        state = await env.state()
        assert isinstance(state, OpenSpielState)
        assert state.game_name == "blackjack"


async def test_what_is_no_move_is_refused_and_the_hand_stays(blackjack_url: str) -> None:
    async with GenericEnvClient(base_url=blackjack_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"move": "stand"})
        before = await env.reset(seed=1)
        for wrong in ({"move": "split"}, {"move": 1}, {}, {"action_id": 2}, {"action_id": -1}):
            with pytest.raises(RequestRejectedError) as refused:
                await env.step(wrong)
            assert refused.value.code == "VALIDATION_ERROR"
        after = await env.step({"move": "hit"})
        assert after.observation["hand"][:-1] == before.observation["hand"]


async def test_a_fork_is_dealt_the_same_cards(blackjack_url: str) -> None:
    async with BlackjackEnv(base_url=blackjack_url) as env:
        await env.reset(seed=2)
        forks = await env.fork(2)
        ends = [(await each.step(BlackjackAction(move="stand"))).observation for each in (env, *forks)]
        assert ends[0] == ends[1] == ends[2]
