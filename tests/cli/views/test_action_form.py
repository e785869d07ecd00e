"""The form by which a person fills in an action."""

import io
import json
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from rich.console import Console

from openenv.cli.views.action_form import InputForm, QuitGameError
from openenv.core.env_server.types import Action


class Suit(Enum):
    HEARTS = "hearts"
    SPADES = "spades"


class Position(BaseModel):
    x: int
    y: int


class Everything(Action):
    suit: Suit
    sure: bool
    number: float
    place: Position
    words: list[str]
    level: int = Field(ge=1, le=30)


class Typing:
    """A person who types some lines, and a screen that shows what they see."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, action: type[BaseModel], *typed: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
        self._screen = io.StringIO()
        self.form = InputForm(action.model_json_schema(), Console(file=self._screen, width=200))

    @property
    def seen(self) -> str:
        return self._screen.getvalue()


def test_every_kind_of_field(monkeypatch: pytest.MonkeyPatch) -> None:
    typing = Typing(monkeypatch, Everything, "H", "t", "-2.5", '{"x": 1, "y": 2}', '["a"]', "30")
    answer = typing.form.fill()
    assert Everything(**answer) == Everything(
        suit=Suit.HEARTS, sure=True, number=-2.5, place=Position(x=1, y=2), words=["a"], level=30
    )
    assert "suit (hearts, spades) >" in typing.seen
    assert "level (1 to 30) >" in typing.seen


def test_the_last_answers_are_offered_once_they_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Move(Action):
        way: Literal["left", "right"]
        say: str

    typing = Typing(monkeypatch, Move, "left", "hi", "", "left", "x", "", "y")
    first = typing.form.fill()
    assert typing.form.fill() == {"way": "left", "say": "x"}
    assert "way needs a value" in typing.seen
    typing.form.remember(first)
    assert typing.form.fill() == {"way": "left", "say": "y"}
    assert "way (left, right) [left] >" in typing.seen
    assert "say [" not in typing.seen


def test_an_omitted_field_is_left_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Open(Action):
        name: str = ""
        size: int | None = None

    assert Typing(monkeypatch, Open, "", "").form.fill() == {}
    assert Typing(monkeypatch, Open, "", "7").form.fill() == {"size": 7}


def test_deprecated_fields_are_left_out_unless_they_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(Action):
        move: str
        unread: str = Field(default="", json_schema_extra={"deprecated": True})
        needed: str = Field(json_schema_extra={"deprecated": True})

    assert Typing(monkeypatch, Old, "go", "on").form.fill() == {"move": "go", "needed": "on"}


def test_a_text_goes_on_in_the_next_line_after_a_backslash(monkeypatch: pytest.MonkeyPatch) -> None:
    class Code(Action):
        code: str

    typing = Typing(monkeypatch, Code, "?", "for i in range(2):\\", "    if i:\\", "        print(i)  ")
    assert typing.form.fill() == {"code": "for i in range(2):\n    if i:\n        print(i)"}
    assert "... >" in typing.seen
    assert "continues in the next line" in typing.seen


def test_only_a_text_goes_on_in_the_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Move(Action):
        way: Literal["left", "right"]

    typing = Typing(monkeypatch, Move, "?", "left\\", "left")
    assert typing.form.fill() == {"way": "left"}
    assert "continues in the next line" not in typing.seen


def test_a_scale_is_told_by_its_ends_and_choices_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Many(Action):
        row: int = Field(ge=1, le=9, description="The row.")
        size: Literal[4, 9]

    typing = Typing(monkeypatch, Many, "?", "9", "4")
    assert typing.form.fill() == {"row": 9, "size": 4}
    assert "row  The row; 1 to 9\n" in typing.seen
    assert "row (1 to 9) >" in typing.seen
    assert "size (4, 9) >" in typing.seen


def test_an_action_without_fields_takes_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    typing = Typing(monkeypatch, Action, "", "q")
    assert typing.form.fill() == {}
    with pytest.raises(QuitGameError):
        typing.form.fill()


def test_q_and_question_mark_can_be_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    class Letter(Action):
        letter: Literal["p", "q", "?"]

    form = Typing(monkeypatch, Letter, "q", "?").form
    assert [form.fill(), form.fill()] == [{"letter": "q"}, {"letter": "?"}]


def test_text_that_looks_like_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Action):
        value: Literal["[red]", "[/]"] = Field(description="a [bold]tag[/bold]")

    typing = Typing(monkeypatch, Odd, "?", "[x]", "[/]")
    assert typing.form.fill() == {"value": "[/]"}
    for text in ("value ([red], [/]) >", "a [bold]tag[/bold]", "got '[x]'"):
        assert text in typing.seen


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30))
def test_any_text_gives_an_answer_a_question_or_the_end(text: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        form = Typing(monkeypatch, Everything, text).form
        with pytest.raises(QuitGameError):  # there is one line for six fields
            form.fill()


@given(value=st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_exactly(value: float) -> None:
    class Amount(Action):
        amount: int | float

    answer: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        answer = Typing(monkeypatch, Amount, json.dumps(value)).form.fill()
    assert answer == {"amount": value}


class Optional(Action):
    suit: Suit | None
    sure: bool | None
    level: int | None = Field(ge=1, le=30)
    side: Literal["left", "right"] | None = None


def test_optional_choices_may_be_null(monkeypatch: pytest.MonkeyPatch) -> None:
    typing = Typing(monkeypatch, Optional, "null", "n", "null", "", "spades", "true", "7", "null")
    assert typing.form.fill() == {"suit": None, "sure": None, "level": None}
    assert typing.form.fill() == {"suit": "spades", "sure": True, "level": 7, "side": None}
    assert "suit (hearts, spades, null)" in typing.seen
    assert "level (1 to 30, null)" in typing.seen
