import asyncio
from random import Random

import pytest

from openenv.core.exceptions import EpisodeOrderError, ProviderError, RequestRejectedError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.local_process import LocalProcessProvider
from openspiel_env import OpenSpielAction, OpenSpielEnv, OpenSpielObservation


async def play(url: str, seed: int, game_name: str) -> list[OpenSpielObservation]:
    random = Random(seed)
    async with OpenSpielEnv(base_url=url) as env:
        result = await env.reset(seed=seed, game_name=game_name)
        seen = [result.observation]
        while not result.done:
            action = OpenSpielAction(action_id=random.choice(result.observation.legal_actions), game_name=game_name)
            result = await env.step(action)
            seen.append(result.observation)
        assert (await env.state()).game_name == game_name
        return seen


async def test_sixty_four_sessions_at_once_play_their_own_games_as_alone(openspiel_url: str) -> None:
    games = 8 * ["tic_tac_toe", "kuhn_poker", "nim", "backgammon", "goofspiel", "catch", "blackjack", "leduc_poker"]
    together = await asyncio.gather(*(play(openspiel_url, seed, game) for seed, game in enumerate(games)))
    alone = [await play(openspiel_url, seed, game) for seed, game in enumerate(games)]
    assert together == alone


async def test_a_fork_continues_with_the_same_chances_and_opponents(openspiel_url: str) -> None:
    async with OpenSpielEnv(base_url=openspiel_url) as env:
        result = await env.reset(seed=3, game_name="backgammon")
        result = await env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        forks = await env.fork(2)
        move = OpenSpielAction(action_id=result.observation.legal_actions[-1])
        first, *others = [(await each.step(move)).observation for each in (env, *forks)]
        assert others == [first, first]


async def test_the_wire_is_that_of_the_public_environment_and_a_text(openspiel_url: str) -> None:
    async with GenericEnvClient(base_url=openspiel_url) as env:
        result = await env.reset(seed=1)
        assert set(result.observation) == {
            "metadata",
            "info_state",
            "legal_actions",
            "game_phase",
            "current_player_id",
            "opponent_last_action",
            "text",
        }
        assert (result.reward, result.done, result.observation["game_phase"]) == (None, False, "initial")
        step = await env.step({"action_id": 1, "game_name": "blackjack", "game_params": {"x": 1}})
        assert step.reward == 0.0
        assert (await env.state())["game_name"] == "catch"


async def test_refused_requests_leave_the_session_usable(openspiel_url: str) -> None:
    async with GenericEnvClient(base_url=openspiel_url) as env:
        with pytest.raises(EpisodeOrderError):
            await env.step({"action_id": 1})
        await env.reset(seed=1)
        for wrong in ({"action_id": 7}, {"action_id": -1}, {"action_id": "left"}, {}, {"move": 1}):
            with pytest.raises(RequestRejectedError) as refused:
                await env.step(wrong)
            assert refused.value.code == "VALIDATION_ERROR"
        for arguments in ({"game_name": "nope"}, {"game_params": {"rows": 0}}, {"game_params": 3}):
            with pytest.raises(RequestRejectedError):
                await env.reset(**arguments)
        assert (await env.state())["step_count"] == 0
        for _ in range(9):
            result = await env.step({"action_id": 1})
        assert result.done
        with pytest.raises(EpisodeOrderError):
            await env.step({"action_id": 1})


def test_the_servers_variables_choose_game_player_and_opponent() -> None:
    variables = {
        "OPENSPIEL_GAME": "tic_tac_toe",
        "OPENSPIEL_AGENT_PLAYER": "1",
        "OPENSPIEL_OPPONENT_POLICY": "first",
    }
    provider = LocalProcessProvider("openspiel", env_vars=variables)
    with provider as server, OpenSpielEnv(base_url=server.base_url).sync() as env:
        observation = env.reset(seed=1).observation
        assert (observation.current_player_id, observation.opponent_last_action) == (1, 0)
        state = env.state()
    assert (state.game_name, state.agent_player, state.opponent_policy) == ("tic_tac_toe", 1, "first")


def test_a_server_with_a_wrong_variable_does_not_start() -> None:
    provider = LocalProcessProvider("openspiel", env_vars={"OPENSPIEL_GAME": "tictactoe"})
    provider.start()
    with pytest.raises(ProviderError, match="did you mean tic_tac_toe"):
        provider.wait_for_ready()
    provider.stop()
