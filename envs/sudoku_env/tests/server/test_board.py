import re

from sudoku_env.game import Game
from sudoku_env.puzzles import make_puzzle
from sudoku_env.server.board import as_html, coloured, in_words

GRID = """\
   C1 C2 C3  C4 C5 C6  C7 C8 C9
R1  2  .  . | 6  .  8 | 1  9  .
R2  .  1  . | 4  7  . | .  6  5
R3  3  4  . | .  .  . | .  7  .
   ---------+---------+---------
R4  .  .  1 | .  6  . | 8  4  .
R5  .  3  9 | 7  8  1 | .  .  .
R6  6  .  7 | 2  .  . | 9  .  .
   ---------+---------+---------
R7  8  .  . | .  4  . | .  2  6
R8  .  .  2 | 8  .  6 | .  1  .
R9  .  .  . | .  .  3 | 7  .  .
"""


def game(max_moves: int = 90) -> Game:
    return Game(make_puzzle(7, "medium"), max_moves)


def test_the_first_text_says_the_task_and_shows_the_grid() -> None:
    playing = game()
    text = in_words(playing, None, playing.hints(2))
    assert text.startswith("Fill the empty cells")
    assert text.endswith(f"{GRID}45 cells are empty; 90 moves left.\nHints: R1C3 can be 5; R2C1 can be 9.")


def test_without_hints_there_are_none() -> None:
    assert "Hints" not in in_words(game(), None, [])


def test_a_wrong_move_is_named_once() -> None:
    playing = game()
    for _ in range(2):
        outcome = playing.play(1, 9)
    text = in_words(playing, outcome, [(1, [5, 7])])
    assert text.startswith("Wrong: 9 cannot stand in row 1, column 2; row 1 has it already.\n")
    assert text.endswith("\n45 cells are empty; 88 moves left.\nHints: R1C2 can be 5 or 7.\nWrong so far: 9 in R1C2.")


def test_the_end_is_said() -> None:
    playing = game(1)
    outcome = playing.play(2, 5)
    assert in_words(playing, outcome, []).endswith("No moves left: 44 cells are empty.")
    solved = game()
    for cell, digit in enumerate(solved.puzzle.solution):
        if solved.grid[cell] == 0:
            outcome = solved.play(cell, digit)
        if solved.grid.count(0) == 1:
            assert "1 cell is empty" in in_words(solved, outcome, [])
    assert in_words(solved, outcome, []).endswith("Solved.")


def test_a_terminal_shows_clues_bold_and_other_digits_green() -> None:
    playing = game()
    assert "\x1b[32m" not in coloured(playing)
    playing.play(2, 5)
    assert coloured(playing).count("\x1b[32m5\x1b[0m") == 1
    assert coloured(playing).count("\x1b[1m") == 36


def test_the_grid_of_the_page_has_a_cell_for_each_digit_and_what_came_of_the_last_move() -> None:
    rows = ["2..6.819."] * 9
    grid = as_html({"board": rows, "message": "Right: <2>.", "moves_left": 70})
    assert re.findall(r"<td>(\d?)</td>", grid) == ["" if cell == "." else cell for row in rows for cell in row]
    assert "Right: &lt;2&gt;." in grid
    assert "70 moves left." in grid
