"""How an observation is shown."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from openenv.cli.views.observation import missing_fields, missing_lines, observation_view


def shown(observation: dict[str, Any], schema: dict[str, Any] | None = None, **settings: Any) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=120, **settings)
    console.print(observation_view(observation, schema or {}))
    return screen.getvalue()


def test_text_wins_over_the_other_fields() -> None:
    assert shown({"text": "a [bold]board[/bold]\nof two lines", "other": 1}) == "a [bold]board[/bold]\nof two lines\n"


def test_empty_lines_at_the_end_are_not_shown() -> None:
    assert shown({"text": "a\n\nb\n\n"}) == "a\n\nb\n"
    assert shown({"stdout": "42\n", "exit_code": 0}).split() == ["stdout", "42", "exit_code", "0"]
    assert len(shown({"stdout": "42\n", "exit_code": 0}).splitlines()) == 2


def test_fields_are_a_line_each_without_the_bookkeeping() -> None:
    fields = {"done": False, "reward": 1.0, "metadata": {"a": 1}, "words": ["x", "y"], "n": None, "deep": {"a": [1]}}
    assert [line.split() for line in shown(fields).splitlines()] == [
        ["words", "x", "y"],
        ["n", "null"],
        ["deep", "{"],
        ['"a":', "["],
        ["1"],
        ["]"],
        ["}"],
    ]


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        (2, {"minimum": 0, "maximum": 4}, "· · ● · ·  2"),
        (0, {"minimum": 0, "exclusiveMaximum": 3}, "● · ·  0"),
        (3, {"exclusiveMinimum": 0, "maximum": 3}, "· · ●  3"),
        (-1, {"minimum": -1, "maximum": 0}, "● ·  -1"),
        (7, {"minimum": 0, "maximum": 4}, "7"),
        (7, {"minimum": 0, "maximum": 400}, "7"),
        (7, {"minimum": 0}, "7"),
        (True, {"minimum": 0, "maximum": 1}, "true"),
        (0.5, {"minimum": 0, "maximum": 1}, "0.5"),
    ],
)
def test_a_number_of_a_short_range_is_shown_on_a_scale(value: Any, field: dict[str, Any], expected: str) -> None:
    assert shown({"x": value}, {"properties": {"x": field}}) == f"x  {expected}\n"


def test_colours_are_kept_in_a_terminal_and_dropped_elsewhere() -> None:
    board = {"text": "\x1b[32mgreen\x1b[0m"}
    assert shown(board) == "green\n"
    assert "\x1b[32mgreen" in shown(board, force_terminal=True, color_system="standard")


def test_a_terminal_is_not_taken_over() -> None:
    attack = "\x1b]0;title\x07\x1b[2Jcleared\x1b[1;1H"
    for observation in ({"text": attack}, {"field": attack}):
        text = shown(observation, force_terminal=True)
        assert "\x1b]0" not in text
        assert "\x1b[2J" not in text
        assert "\x1b[1;1H" not in text
        assert "cleared" in text


def test_below_a_picture_is_what_it_does_not_show() -> None:
    picture = Text.from_ansi("\x1b[31m>>> 6 * 7\x1b[0m\n42")
    observation = {"stdout": "42\n", "stderr": "", "part": "6 * 7", "exit_code": 0, "done": False}
    assert missing_fields(observation, picture) == {"part": "6 * 7", "exit_code": 0}


def test_above_a_picture_are_the_lines_that_it_does_not_show() -> None:
    picture = Text.from_ansi("\x1b[1m1\x1b[0m  .\n\n1 left.")
    task = missing_lines("\x1b[32mFill\x1b[0m it:\n\n1 .\n1 left.\nHint: 2.\n\n", picture)
    assert task.plain == "Fill it:\n\nHint: 2."
    assert task.spans
    assert not missing_lines("1 .\n\n1   left.\n", picture)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=8), _values, max_size=4))
def test_anything_can_be_shown(observation: dict[str, Any]) -> None:
    shown(observation)
