from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import IllegalActionError, InvalidRequestError, ResetNeededError
from sudoku_env import SudokuAction, SudokuObservation
from sudoku_env.player import make_player
from sudoku_env.puzzles import make_puzzle
from sudoku_env.server.sudoku_environment import SudokuEnvironment

SOLUTION = make_puzzle(7, "medium").solution


def write(environment: SudokuEnvironment, row: int, col: int, number: int) -> SudokuObservation:
    return environment.step(SudokuAction(row=row, col=col, number=number))


def medium(**task: Any) -> SudokuEnvironment:
    environment = SudokuEnvironment()
    environment.reset(seed=7, difficulty="medium", **task)
    return environment


def test_a_reset_shows_the_puzzle() -> None:
    observation = SudokuEnvironment().reset(seed=7, difficulty="medium")
    assert observation.board[0] == "2..6.819."
    assert (observation.reward, observation.done, observation.valid, observation.progress) == (None, False, None, 0.0)
    assert (observation.moves_left, observation.tried, observation.message, observation.metadata) == (90, [], "", {})
    assert [(hint.row, hint.col, hint.numbers) for hint in observation.hints] == [(1, 3, [5]), (2, 1, [9]), (2, 3, [8])]


def test_a_right_move_is_written() -> None:
    observation = write(medium(), 1, 3, 5)
    assert (observation.board[0], observation.valid, observation.reward) == ("2.56.819.", True, 0.0)


def test_wrong_moves_are_remembered() -> None:
    environment = medium()
    observations = [write(environment, 1, 2, 9) for _ in range(2)]
    assert observations[-1].tried == [[1, 2, 9]] * 2
    assert (observations[-1].valid, observations[-1].moves_left, observations[-1].done) == (False, 88, False)


def test_a_filled_cell_is_refused_and_does_not_count() -> None:
    environment = medium()
    write(environment, 1, 3, 5)
    for row, col, holds in ((1, 1, 2), (1, 3, 5)):
        with pytest.raises(IllegalActionError, match=f"Row {row}, column {col} already holds {holds}"):
            write(environment, row, col, 9)
    assert environment.state.step_count == 1


def test_the_last_cell_wins_one_and_ends_it() -> None:
    environment, player = SudokuEnvironment(), make_player(1)
    observation = environment.reset(seed=7, difficulty="medium")
    rewards = []
    while not observation.done:
        observation = environment.step(player(observation))
        rewards.append(observation.reward)
    assert rewards == [0.0] * 44 + [1.0]
    assert (observation.progress, observation.hints, environment.state.solved) == (1.0, [], True)
    with pytest.raises(ResetNeededError):
        write(environment, 1, 1, 1)


def test_it_ends_without_a_reward_when_the_moves_are_used_up() -> None:
    environment = medium(max_moves=2)
    assert not write(environment, 1, 2, 9).done
    end = write(environment, 1, 2, 9)
    assert (end.done, end.reward, end.moves_left, end.hints) == (True, 0.0, 0, [])


def test_a_reset_may_fill_cells() -> None:
    environment = SudokuEnvironment()
    observation = environment.reset(seed=7, difficulty="medium", clues=79)
    assert (len(observation.hints), observation.moves_left, environment.state.clues) == (2, 4, 79)
    for hint in observation.hints:
        observation = write(environment, hint.row, hint.col, hint.numbers[0])
    assert (observation.reward, observation.done) == (1.0, True)


def test_fewer_clues_than_the_difficulty_are_refused_and_the_episode_goes_on() -> None:
    environment = medium()
    with pytest.raises(InvalidRequestError, match="from 45 to 80 for easy puzzles, got 44; choose a harder difficulty"):
        environment.reset(difficulty="easy", clues=44)
    assert write(environment, 1, 3, 5).valid


def test_there_is_nothing_to_fill_before_a_reset() -> None:
    with pytest.raises(ResetNeededError):
        write(SudokuEnvironment(), 1, 1, 1)


def test_hints_are_as_many_as_are_asked_for() -> None:
    for hints, shown in ((0, 0), (5, 5), (81, 45)):
        assert len(SudokuEnvironment().reset(seed=7, difficulty="medium", hints=hints).hints) == shown


def test_instances_and_copies_play_their_own_games() -> None:
    environment = medium()
    write(environment, 1, 3, 5)
    copy = deepcopy(environment)
    assert write(copy, 1, 2, 7) == write(environment, 1, 2, 7)
    write(copy, 1, 5, 9)
    assert environment.state.step_count == copy.state.step_count - 1


@given(st.integers(0, 2**32), st.lists(st.tuples(*[st.integers(1, 9)] * 3), max_size=20))
def test_the_solution_does_not_leak_before_the_end(seed: int, moves: list[tuple[int, int, int]]) -> None:
    environment = SudokuEnvironment()
    shown: list[Any] = [environment.reset(seed=seed, hints=0)]
    solution = make_puzzle(seed, "easy").solution
    for row, col, number in moves:
        if environment.state.board[row - 1][col - 1] == ".":
            shown += [write(environment, row, col, number), environment.state]
    rows = ["".join(map(str, solution[start : start + 9])) for start in range(0, 81, 9)]
    for each in shown:
        empty = ["." in row for row in each.board]
        assert not any(row in each.model_dump_json() for row, open_ in zip(rows, empty, strict=True) if open_)


def test_before_a_reset_there_is_neither_board_nor_picture() -> None:
    environment = SudokuEnvironment()
    assert (environment.state.board, environment.render()) == ([], "")
    assert medium().render().startswith("   C1")


def test_a_picture_says_what_came_of_the_last_move() -> None:
    environment = medium()
    written = write(environment, 1, 3, 5)
    assert written.valid
    assert environment.render().splitlines()[0] == written.message
    environment.reset(seed=7, difficulty="medium")
    assert environment.render().startswith("   C1")
