from sudoku_env import SudokuAction
from sudoku_env.game import grid_of, place_of
from sudoku_env.grid import CELLS, candidates, digits
from sudoku_env.puzzles import make_puzzle
from sudoku_env.server.rewards import sudoku_reward
from sudoku_env.server.sudoku_environment import SudokuEnvironment


def scores(environment: SudokuEnvironment, row: int, col: int, number: int) -> list[float]:
    """Write a digit; return the reward and its parts, and check that the parts have the names that are expected."""
    rubric = sudoku_reward()
    action = SudokuAction(row=row, col=col, number=number)
    observation = environment.step(action)
    assert rubric(action, observation) == observation.reward
    parts = rubric.component_scores()
    names = ["solved", "validity", "correct", "progress", "repetitions"]
    assert list(parts) == [f"sudoku.{name}" for name in names]
    assert rubric.component_weights() == dict(zip(parts, [1.0, 0.0, 0.0, 0.0, 0.0], strict=True))
    return list(parts.values())


def medium() -> SudokuEnvironment:
    environment = SudokuEnvironment()
    environment.reset(seed=7, difficulty="medium")
    return environment


def test_a_right_move() -> None:
    assert scores(medium(), 1, 3, 5) == [0.0, 1.0, 1.0, 1 / 45, 1.0]


def test_a_move_that_breaks_the_rule_again_and_again() -> None:
    environment = medium()
    assert [scores(environment, 1, 2, 9) for _ in range(3)] == [[0.0, 0.0, 0.0, 0.0, again] for again in (1, 0, -1)]


def test_a_wrong_move_that_breaks_no_rule() -> None:
    environment = medium()
    grid, solution = grid_of(environment.state.board), make_puzzle(7, "medium").solution
    empty = [cell for cell in CELLS if not grid[cell]]
    wrong = [(cell, digit) for cell in empty for digit in digits(candidates(grid, cell)) if digit != solution[cell]]
    assert scores(environment, *place_of(wrong[0][0]), wrong[0][1]) == [0.0, 1.0, 0.0, 0.0, 1.0]


def test_the_last_cell() -> None:
    environment = SudokuEnvironment()
    (hint,) = environment.reset(seed=7, clues=80).hints
    assert scores(environment, hint.row, hint.col, hint.numbers[0]) == [1.0, 1.0, 1.0, 1.0, 1.0]
