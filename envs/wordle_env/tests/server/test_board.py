import re

from wordle_env.rules import Game
from wordle_env.server.board import as_html, coloured, in_words


def test_the_task_is_told_before_the_first_guess() -> None:
    text = in_words(Game("mouse"))
    assert "5-letter word in 6 guesses" in text
    assert "mouse" not in text.lower()


def test_each_guess_is_a_line_with_a_mark_after_each_letter() -> None:
    assert in_words(Game("mouse", ("stare", "house"))).splitlines() == [
        "S🟨 T⬛ A⬛ R⬛ E🟩",
        "H⬛ O🟩 U🟩 S🟩 E🟩",
        "4 guesses left.",
    ]


def test_the_secret_is_told_at_the_end_and_not_before() -> None:
    lost = ("house", "louse", "rouse", "douse", "souse")
    assert in_words(Game("mouse", lost)).endswith("\n1 guess left.")
    assert in_words(Game("mouse", (*lost, "arose"))).endswith("\nNo guesses left: the word was MOUSE.")
    assert in_words(Game("mouse", ("mouse",))).endswith("\nSolved: the word was MOUSE.")


def test_the_coloured_board_has_a_colour_for_each_mark_and_a_row_for_each_guess() -> None:
    board = coloured(Game("mouse", ("stare",)))
    assert re.findall(r"\x1b\[\d+;48;5;(\d+)m(.\w.)", board) == [
        ("179", "(S)"),
        ("240", " T "),
        ("240", " A "),
        ("240", " R "),
        ("71", "[E]"),
    ]
    assert board.count("\n _ ") == 5
    assert board.count("\x1b[0m") == 5
    assert "mouse" not in board.lower()


def test_the_coloured_board_says_the_same_without_colours_and_explains_its_marks_once_there_are_any() -> None:
    board = re.sub("\x1b.*?m", "", coloured(Game("mouse", ("stare", "house"))))
    assert board.splitlines() == [
        "(S) T  A  R [E]",
        " H [O][U][S][E]",
        *[" _  _  _  _  _ "] * 4,
        "4 guesses left.",
        "[ ] in its place, ( ) elsewhere",
    ]
    assert "elsewhere" not in coloured(Game("mouse"))


def test_the_board_of_the_page_has_a_cell_for_each_letter_and_says_how_the_game_ended() -> None:
    observation = {
        "word_length": 5,
        "guesses_left": 4,
        "guesses": ["STARE", "<b>IT"],
        "feedbacks": ["🟨⬛⬛⬛🟩", "⬛⬛⬛⬛⬛"],
        "target_word": None,
    }
    board = as_html(observation)
    kinds = ["elsewhere", "absent", "absent", "absent", "in-place"]
    assert re.findall(r'class="([\w-]+)" aria-label="[^"]+">([^<]+)</td>', board)[:5] == list(
        zip(kinds, "STARE", strict=True)
    )
    assert 'aria-label="S, elsewhere"' in board
    assert (board.count("<tr>"), board.count("<td></td>"), "&lt;</td>" in board) == (6, 20, True)
    assert "<p>" not in board
    assert "Solved: STARE" in as_html({**observation, "target_word": "STARE"})
    assert "The word was MOUSE" in as_html({**observation, "target_word": "MOUSE"})
