from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sudoku_env.grid import CELLS, EMPTY, UNITS
from sudoku_env.puzzles import make_puzzle
from sudoku_env.solver import solutions


def is_solution(grid: tuple[int, ...]) -> bool:
    return all(len({grid[other] for other in unit}) == 9 and 0 not in grid for cell in CELLS for unit in UNITS[cell])


def test_a_well_known_puzzle_has_the_well_known_solution() -> None:
    clues = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
    solved = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
    assert solutions(list(map(int, clues))) == [tuple(map(int, solved))]


def test_as_many_are_found_as_are_asked_for_and_all_differ() -> None:
    found = solutions(EMPTY, limit=20)
    assert len(set(found)) == 20
    assert all(map(is_solution, found))


def test_a_full_grid_is_its_own_solution_and_the_grid_is_left_alone() -> None:
    puzzle = make_puzzle(1, "easy")
    grid = list(puzzle.clues)
    assert solutions(puzzle.solution) == [puzzle.solution]
    solutions(grid)
    assert grid == list(puzzle.clues)


def test_where_two_digits_can_change_places_there_are_two_solutions() -> None:
    """Four cells in two rows, two columns and two boxes, which hold the same two digits crosswise."""
    for seed in range(50):
        grid = list(make_puzzle(seed, "very-easy").solution)
        corners = crossed(grid)
        if corners:
            for cell in corners:
                grid[cell] = 0
            assert len(solutions(grid, limit=5)) == 2
            return
    raise AssertionError("no grid with such cells was found")


def crossed(grid: list[int]) -> tuple[int, ...]:
    for first in CELLS:
        for second in range(first + 1, first // 9 * 9 + 9):
            for down in (9, 18):
                below = first + down, second + down
                crosswise = below[1] < 81 and (grid[below[0]], grid[below[1]]) == (grid[second], grid[first])
                if crosswise and first // 27 == below[0] // 27 and first % 9 // 3 != second % 9 // 3:
                    return (first, second, *below)
    return ()


def test_a_contradiction_has_no_solution() -> None:
    grid = list(EMPTY)
    grid[0:8] = [1, 2, 3, 4, 5, 6, 7, 8]
    grid[17] = 9  # in the column of the only cell left for a 9
    assert solutions(grid) == []


@given(st.integers(0, 2**32))
def test_a_seed_draws_the_same_grid_and_another_draws_another(seed: int) -> None:
    first, again, other = (solutions(EMPTY, 1, Random(each)) for each in (seed, seed, seed + 1))
    assert first == again != other
    assert is_solution(first[0])
