"""Turn-based games, by one client against an opponent or with all seats."""

import copy
from typing import Any

import numpy as np
import pettingzoo
import pytest
from gymnasium.utils.env_checker import check_env
from tests.adapters.gymnasium.test_env import spec
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.adapters.gymnasium import GymnasiumEnv
from openenv.adapters.pettingzoo import PettingZooEnvironment, environment_class
from openenv.adapters.targets import find_adapted
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError, RequestRejectedError

LAST_LEGAL = "opponents=tests.adapters.pettingzoo.test_opponents:last_legal"


def served(env_id: str) -> RunningServer:
    return RunningServer(find_adapted(f"pettingzoo:{env_id}").app())


def play(client: Any, seed: int) -> list[Any]:
    """Play one game with the first legal move each time; return what was seen."""
    results = [client.reset(seed=seed)]
    while not results[-1].done:
        legal = np.flatnonzero(results[-1].observation["observation"]["action_mask"])
        results.append(client.step({"action": int(legal[0])}))
    return results


def test_the_client_plays_one_seat_and_the_opponent_answers() -> None:
    with served(f"classic/tictactoe-v3?{LAST_LEGAL}") as server, GenericEnvClient(base_url=server.url).sync() as client:
        results = play(client, seed=1)
    # The first column is full after three moves: 0, 1 and 2, while the opponent has 8 and 7.
    assert [result.reward for result in results[1:]] == [0.0, 0.0, 1.0]
    board = np.array(results[-1].observation["observation"]["observation"])
    assert board[:, :, 0].ravel().nonzero()[0].tolist() == [0, 1, 2]
    assert board[:, :, 1].ravel().nonzero()[0].tolist() == [7, 8]
    assert {result.metadata["agent"] for result in results} == {"player_1"}
    assert results[-1].metadata["terminated"] is True
    assert results[-1].metadata["truncated"] is False


def test_from_the_second_seat_the_opponent_moves_first_and_a_loss_is_told() -> None:
    env_id = f"classic/tictactoe-v3?seat=player_2&{LAST_LEGAL}"
    with served(env_id) as server, GenericEnvClient(base_url=server.url).sync() as client:
        results = play(client, seed=1)
    first = np.array(results[0].observation["observation"]["observation"])
    assert first[:, :, 1].ravel().nonzero()[0].tolist() == [8]
    assert [result.reward for result in results[1:]] == [0.0, -1.0]


@pytest.mark.parametrize("env_id", ["classic/tictactoe-v3", "classic/connect_four-v3?seat=player_1"])
def test_a_seed_repeats_the_opponents_moves(env_id: str) -> None:
    with served(env_id) as server, GenericEnvClient(base_url=server.url).sync() as client:
        first, second = play(client, seed=3), play(client, seed=3)
        assert first == second
        assert any(play(client, seed=seed) != first for seed in range(4, 10))


def test_the_rewards_are_pettingzoos_own() -> None:
    """Step by step beside PettingZoo itself, with every seat played from here."""
    game: Any = pettingzoo.make("aec", "classic/connect_four-v3")
    numbers = np.random.default_rng(1)
    env_id = "classic/connect_four-v3?opponents=none"
    with served(env_id) as server, GenericEnvClient(base_url=server.url).sync() as client:
        for seed in range(3):
            game.reset(seed=seed)
            result = client.reset(seed=seed)
            while not result.done:
                expected, _, terminated, _, _ = game.last()
                assert not terminated
                assert result.metadata is not None
                assert result.metadata["agent"] == game.agent_selection
                assert result.observation["observation"]["observation"] == expected["observation"].tolist()
                mover, move = game.agent_selection, int(numbers.choice(np.flatnonzero(expected["action_mask"])))
                game.step(move)
                result = client.step({"action": move})
                assert result.reward == game.rewards[mover]
                assert result.metadata is not None
                assert result.metadata["rewards"] == game.rewards
            assert all(game.terminations.values())
            assert result.reward == 1.0
    game.close()


def test_an_illegal_move_is_refused_and_the_game_goes_on() -> None:
    with served("classic/tictactoe-v3") as server, GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(seed=1)
        answered = client.step({"action": 4})
        with pytest.raises(RequestRejectedError, match=r"Action 4 is not legal now; expected one of \d(, \d){6}\."):
            client.step({"action": 4})
        with pytest.raises(RequestRejectedError) as caught:
            client.step({"action": 9})
        assert caught.value.errors[0]["msg"] == "Value error, expected a whole number from 0 to 8, got 9"
        assert client.state()["step_count"] == 1
        legal = np.flatnonzero(answered.observation["observation"]["action_mask"])
        client.step({"action": int(legal[0])})


def test_a_game_without_a_mask_that_is_cut_off() -> None:
    with served("classic/rps-v2?max_cycles=3") as server, GymnasiumEnv(server.url) as env:
        env.reset(seed=1)
        steps = [env.step(0) for _ in range(3)]
    assert [step[2:4] for step in steps] == [(False, False), (False, False), (False, True)]


@pytest.mark.filterwarnings("ignore:.*observation space.*:UserWarning")
def test_gymnasiums_checker_is_content_with_a_seat() -> None:
    with served("classic/rps-v2") as server:
        env = GymnasiumEnv(server.url)
        env.spec = spec(server.url)
        check_env(env)
        env.close()


async def test_a_game_forks_by_a_replay() -> None:
    with served("classic/tictactoe-v3") as server:
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset(seed=1)
            first = await client.step({"action": 4})
            (twin,) = await client.fork(1)
            move = int(np.flatnonzero(first.observation["observation"]["action_mask"])[0])
            mine, other = await client.step({"action": move}), await twin.step({"action": move})
            assert mine.observation == other.observation
            await twin.close()


def test_a_copy_that_would_begin_anew_is_refused() -> None:
    game = environment_class("classic/connect_four-v3")()
    game.reset(seed=1)
    with pytest.raises(EnvironmentFailedError, match="would start from the beginning, as EzPickle makes it"):
        copy.deepcopy(game)


def test_a_picture_is_drawn_where_it_was_asked_for() -> None:
    plain, drawing = (
        environment_class(f"classic/tictactoe-v3{query}")() for query in ("", "?render_mode=rgb_array&screen_height=90")
    )
    for game in (plain, drawing):
        game.reset(seed=1)
    assert plain.render() is None
    picture = drawing.render()
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (90, 90, 3)


def test_of_no_game_in_particular_there_is_none() -> None:
    with pytest.raises(ConfigurationError, match=r'environment_class\("classic/tictactoe-v3"\)'):
        PettingZooEnvironment()
