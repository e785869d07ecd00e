from collections import Counter

import pyspiel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catch_env import CatchAction
from catch_env.models import Move
from catch_env.server.catch_environment import CatchEnvironment
from openenv.core.exceptions import ResetNeededError

MOVES: list[Move] = ["left", "stay", "right"]


def test_an_episode_begins_with_the_ball_at_the_top_and_the_paddle_in_the_middle() -> None:
    observation = CatchEnvironment().reset(seed=1)
    assert (observation.row, observation.paddle, observation.reward, observation.done) == (0, 2, None, False)


@given(st.integers(0, 2**32), st.lists(st.sampled_from(MOVES), min_size=9, max_size=9))
def test_ball_paddle_and_reward_follow_the_rules(seed: int, moves: list[Move]) -> None:
    environment = CatchEnvironment()
    observation = environment.reset(seed=seed)
    ball, paddle = observation.ball, 2
    for number, move in enumerate(moves, start=1):
        observation = environment.step(CatchAction(move=move))
        paddle = min(4, max(0, paddle + {"left": -1, "stay": 0, "right": 1}[move]))
        assert (observation.ball, observation.paddle, observation.row) == (ball, paddle, number)
        assert observation.done == (number == 9)
        if number < 9:
            assert observation.reward == 0.0
    assert observation.reward == (1.0 if ball == paddle else -1.0)
    assert type(observation.reward) is float


@given(st.integers(0, 4), st.lists(st.sampled_from(MOVES), min_size=9, max_size=9))
def test_the_numbers_say_what_openspiels_board_shows(ball: int, moves: list[Move]) -> None:
    environment = CatchEnvironment()
    seed = next(seed for seed in range(1000) if environment.reset(seed=seed).ball == ball)
    environment.reset(seed=seed)
    state = pyspiel.load_game("catch").new_initial_state()
    state.apply_action(ball)
    for move in moves:
        observation = environment.step(CatchAction(move=move))
        state.apply_action(MOVES.index(move))
        assert environment.render() == str(state).rstrip()
        assert environment.render().splitlines()[9][observation.paddle] in "xo"
    assert observation.reward == state.returns()[0]


def test_a_seed_determines_the_column_and_seeds_spread_evenly() -> None:
    environment = CatchEnvironment()
    columns = [environment.reset(seed=seed).ball for seed in range(1000)]
    assert columns == [environment.reset(seed=seed).ball for seed in range(1000)]
    assert all(160 < count < 240 for count in Counter(columns).values())
    assert len({environment.reset().ball for _ in range(200)}) == 5


def test_there_is_nothing_to_catch_before_a_reset_or_after_the_end() -> None:
    environment = CatchEnvironment()
    with pytest.raises(ResetNeededError):
        environment.step(CatchAction(move="stay"))
    environment.reset(seed=1)
    for _ in range(9):
        environment.step(CatchAction(move="stay"))
    with pytest.raises(ResetNeededError):
        environment.step(CatchAction(move="stay"))


def test_the_state_names_the_episode_and_counts_its_steps() -> None:
    environment = CatchEnvironment()
    environment.reset(seed=1, episode_id="mine")
    environment.step(CatchAction(move="stay"))
    assert (environment.state.episode_id, environment.state.step_count) == ("mine", 1)
    environment.reset(seed=1)
    assert environment.state.step_count == 0
    assert environment.state.episode_id not in (None, "mine")


def test_instances_share_nothing() -> None:
    one, other = CatchEnvironment(), CatchEnvironment()
    one.reset(seed=1)
    other.reset(seed=1)
    one.step(CatchAction(move="left"))
    assert other.step(CatchAction(move="right")).paddle == 3
    assert one.step(CatchAction(move="left")).paddle == 0


def test_the_board_is_rendered_once_there_is_one() -> None:
    environment = CatchEnvironment()
    assert environment.render() == ""
    observation = environment.reset(seed=1)
    board = environment.render().splitlines()
    assert len(board) == 10
    assert board[0][observation.ball] == "o"
    assert board[9] == "..x.."
