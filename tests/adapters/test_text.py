"""Observations as text and actions from text."""

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel

from openenv.adapters.text import ActionText, hidden_text_warning, observation_fields, observation_text
from openenv.core.env_server.types import Action, Observation
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.actions import action_model
from openenv.train.agents.players import RandomPlayer


class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class Move(Action):
    direction: Literal["left", "stay", "right"]


class Stay(Action):
    direction: Literal["left", "stay", "right"] = "right"


class Say(Action):
    message: str


class Whisper(Action):
    message: str = Field(min_length=2, max_length=5)


class Choose(Action):
    number: int = Field(ge=-1, le=2)


class Bid(Action):
    amount: int
    note: str = "a field with a default is not asked for"


class Drive(Action):
    direction: Literal["left", "right"]
    speed: Speed


class Write(Action):
    path: str
    lines: list[str]


class Wait(Action):
    pass


class Ask(Action):
    type: Literal["ask"] = "ask"
    question: str
    loud: bool = False


class Reply(Action):
    type: Literal["reply"] = "reply"
    value: int | str


class Leave(Action):
    type: Literal["leave"] = "leave"
    reason: str = "none"


Talk = Annotated[Ask | Reply | Leave, Field(discriminator="type")]
TALK = cast("type[BaseModel]", action_model(Talk))


class Answer(Action):
    agree: bool


class Perhaps(Action):
    colour: Literal["red", "blue"] | None


def test_an_observation_is_its_own_text() -> None:
    class Board(Observation):
        text: str
        ball: int

    assert observation_text(Board(text="a board", ball=3, reward=1.0, done=True)) == "a board"


def test_other_observations_have_a_line_for_each_field() -> None:
    class Board(Observation):
        ball: int
        near: float
        names: list[str]
        nothing: None = None
        deep: dict[str, Any]

    board = Board(ball=3, near=0.5, names=["a", "b"], deep={"x": [1, {"y": None}]}, reward=1.0, metadata={"secret": 1})
    assert observation_text(board) == 'ball 3\nnear 0.5\nnames a b\nnothing null\ndeep {"x": [1, {"y": null}]}'


def test_an_observation_of_a_bare_client_reads_the_same() -> None:
    fields = {"ball": 3, "done": False, "reward": None, "metadata": {"secret": 1}, "ok": True}
    assert observation_text(fields) == "ball 3\nok true"
    assert observation_fields(fields) == {"ball": 3, "ok": True}
    assert observation_text({"text": "a board", "ball": 3}) == "a board"


@pytest.mark.parametrize(
    ("action", "choices"),
    [
        (Move, ("left", "stay", "right")),
        (Choose, ("-1", "0", "1", "2")),
        (Answer, ("false", "true")),
        (Perhaps, ("red", "blue", "null")),
        (Wait, ("{}",)),
        (
            Drive,
            (
                '{"direction": "left", "speed": "slow"}',
                '{"direction": "left", "speed": "fast"}',
                '{"direction": "right", "speed": "slow"}',
                '{"direction": "right", "speed": "fast"}',
            ),
        ),
        (Say, ()),
        (Bid, ()),
        (Write, ()),
    ],
)
def test_finite_actions_list_their_texts(action: type[BaseModel], choices: tuple[str, ...]) -> None:
    for actions in (ActionText(action), ActionText(action.model_json_schema())):
        assert actions.choices == choices
        assert all(actions.read(choice).legal for choice in choices)


@pytest.mark.parametrize(
    ("text", "direction"), [("left", "left"), ("  right\n", "right"), ("Stay", "stay"), ("LEFT", "left")]
)
def test_a_choice_is_read_whatever_its_case_and_the_space_around_it(text: str, direction: str) -> None:
    reading = ActionText(Move).read(text)
    assert reading.legal
    assert reading.action == Move.model_validate({"direction": direction})


@pytest.mark.parametrize("text", ["", "up", "left right", "lef", "left.", '{"direction": "left"}'])
def test_anything_else_is_the_fallback_with_a_problem(text: str) -> None:
    reading = ActionText(Move).read(text)
    assert not reading.legal
    assert reading.action == Move(direction="stay")
    assert reading.problem == f"expected one of left, stay, right; got {text!r}"


def test_a_case_that_could_mean_two_choices_is_neither() -> None:
    class Letter(Action):
        letter: Literal["a", "A", "b"]

    actions = ActionText(Letter)
    assert actions.read("A").action == Letter(letter="A")
    assert actions.read("B").action == Letter(letter="b")
    assert not ActionText({"properties": {"letter": {"enum": ["ab", "AB"]}}, "required": ["letter"]}).read("Ab").legal


@pytest.mark.parametrize(
    ("action", "asked_for", "fallback"),
    [
        (Move, None, Move(direction="stay")),
        (Move, "left", Move(direction="left")),
        (Stay, None, Stay()),
        (Stay, "left", Stay(direction="left")),
        (Choose, None, Choose(number=0)),
        (Answer, None, Answer(agree=False)),
        (Whisper, None, None),
        (Whisper, "hello", Whisper(message="hello")),
        (Bid, None, None),
        (Bid, "7", Bid(amount=7)),
        (Write, None, None),
    ],
)
def test_the_fallback(action: type[BaseModel], asked_for: str | None, fallback: BaseModel | None) -> None:
    reading = ActionText(action, asked_for).read("x")
    assert not reading.legal
    assert reading.action == fallback


@pytest.mark.parametrize(("action", "fallback"), [(Move, "up"), (Whisper, "x"), (Write, "{}"), (Bid, "much")])
def test_a_fallback_must_itself_be_legal(action: type[BaseModel], fallback: str) -> None:
    with pytest.raises(ConfigurationError, match=f"The fallback '{fallback}' is no legal action: .+"):
        ActionText(action, fallback)


@pytest.mark.parametrize("text", ["", "hello", "two words", "  spaced  "])
def test_free_text_is_taken_whole(text: str) -> None:
    actions = ActionText(Say)
    assert actions.is_free_text
    assert actions.read(text).action == Say(message=text.strip())


def test_free_text_may_have_rules() -> None:
    reading = ActionText(Whisper).read("far too loud")
    assert reading.action is None
    assert reading.problem == "message: String should have at most 5 characters"


@pytest.mark.parametrize(("text", "amount"), [("12", 12), ("-3", -3), ("1 2", 12), ("- 3", -3)])
def test_a_number_is_read_even_with_its_digits_apart(text: str, amount: int) -> None:
    assert ActionText(Bid).read(text).action == Bid(amount=amount)


@pytest.mark.parametrize("text", ["", "twelve", "1.5", "[1]", "null", "NaN", "1e999", "9" * 5000])
def test_no_number_is_no_action(text: str) -> None:
    reading = ActionText(Bid).read(text)
    assert not reading.legal
    assert reading.action is None


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a", "lines": ["b", "c"]}',
        'Here it is:\n```json\n{"path": "a", "lines": ["b", "c"]}\n```\n',
    ],
)
def test_several_fields_are_a_json_object(text: str) -> None:
    assert ActionText(Write).read(text).action == Write(path="a", lines=["b", "c"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "}{",
        "[1]",
        '"text"',
        "{}",
        '{"path": "a"}',
        '{"path": "a", "lines": "b"}',
        '{"path": "a", "lines": [], "more": 1}',
        '{"path": {"path": "a"}, "lines": []}',
        "{" * 100_000,
        '{"a":' * 50_000 + "}" * 50_000,
    ],
)
def test_a_broken_object_is_no_action(text: str) -> None:
    reading = ActionText(Write).read(text)
    assert not reading.legal
    assert reading.action is None
    assert reading.problem


@pytest.mark.parametrize(
    "text", ["{}", '{"path": "a"}', '{"path": "a", "lines": [], "more": 1}', '{"direction": "up", "speed": "slow"}']
)
def test_without_the_class_names_and_finite_values_are_checked(text: str) -> None:
    for action in (Write, Drive):
        assert not ActionText(action.model_json_schema()).read(text).legal


def test_without_the_class_an_action_is_its_fields() -> None:
    assert ActionText(Move.model_json_schema()).read("left").action == {"direction": "left"}
    assert ActionText(Bid.model_json_schema()).read("7").action == {"amount": 7}


def test_an_action_of_one_field_from_its_value() -> None:
    assert ActionText(Bid).make_single(3) == Bid(amount=3)
    assert ActionText(Bid).make_single("much") is None
    assert ActionText(Drive).make_single("left") is None


def test_more_values_than_can_be_listed_are_read_as_a_number() -> None:
    class Big(Action):
        number: int = Field(ge=0, le=10**6)

    actions = ActionText(Big)
    assert actions.choices == ()
    assert actions.read("1000000").action == Big(number=10**6)
    assert not actions.read("1000001").legal


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (Move, "Answer with exactly one of these and nothing else: left, stay, right."),
        (Say, "Answer with message and nothing else."),
        (Bid, "Answer with amount as a number and nothing else."),
        (
            Drive,
            'Answer with a JSON object and nothing else. Its keys: "direction" (one of left, right), '
            '"speed" (one of slow, fast).',
        ),
        (Write, 'Answer with a JSON object and nothing else. Its keys: "path" (string), "lines" (array).'),
    ],
)
def test_instructions_say_how_to_write_an_action(action: type[BaseModel], sentence: str) -> None:
    assert ActionText(action).instructions() == sentence


def test_instructions_use_the_fields_description() -> None:
    class Guess(Action):
        word: str = Field(description="an English word")

    assert ActionText(Guess).instructions() == "Answer with an English word and nothing else."


@pytest.mark.parametrize(
    ("action", "text", "read"),
    [
        (Move, 'The answer is "left."', Move(direction="left")),
        (Move, "I go LEFT, left!", Move(direction="left")),
        (Choose, "My number is -1.", Choose(number=-1)),
        (Choose, "**2**", Choose(number=2)),
        (Perhaps, "I choose red", Perhaps(colour="red")),
        (Bid, "I would bid 12 on it.", Bid(amount=12)),
        (Move, "left or right", None),
        (Move, "leftovers", None),
        (Move, "", None),
        (Choose, "7", None),
        (Choose, "1.5", None),
        (Bid, "between 3 and 4", None),
        (Drive, "left, fast", None),
    ],
)
def test_lenient_reading_finds_the_one_value_in_a_text(action: type[BaseModel], text: str, read: Any) -> None:
    for form in (action, action.model_json_schema()):
        assert not ActionText(form).read(text).legal
        reading = ActionText(form, lenient=True).read(text)
        assert reading.legal is (read is not None)
        if read is not None:
            assert ActionText(form).write(cast("Any", reading.action)) == ActionText(action).write(read)


def test_lenient_reading_takes_the_longer_of_two_values() -> None:
    class Step(Action):
        to: Literal["up", "up left", "left"]

    assert ActionText(Step, lenient=True).read("So: up left!").action == Step(to="up left")
    assert not ActionText(Step, lenient=True).read("up, then left").legal


@given(st.text(max_size=200))
def test_lenient_reading_changes_no_text_that_is_legal_without_it(text: str) -> None:
    for action in (Move, Choose, Whisper, Bid, Drive, Perhaps):
        strict, lenient = ActionText(action).read(text), ActionText(action, lenient=True).read(text)
        assert not strict.legal or lenient == strict


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for action in (Move, Whisper, Bid, Drive, Write, Wait, Perhaps):
        for actions in (ActionText(action), ActionText(action.model_json_schema(), lenient=True)):
            reading = actions.read(text)
            assert reading.legal or reading.problem


WRITTEN = st.one_of(
    st.builds(Move, direction=st.sampled_from(["left", "stay", "right"])),
    st.builds(Choose, number=st.integers(-1, 2)),
    st.builds(Bid, amount=st.integers(-(10**12), 10**12)),
    st.builds(Drive, direction=st.sampled_from(["left", "right"]), speed=st.sampled_from(Speed)),
    st.builds(Write, path=st.text(), lines=st.lists(st.text(), max_size=4)),
    st.builds(Say, message=st.text().map(str.strip)),
)


@given(WRITTEN)
def test_what_is_written_is_read_back(action: Action) -> None:
    actions = ActionText(type(action))
    text = actions.write(action)
    assert actions.read(text).action == action
    assert ActionText(type(action).model_json_schema()).write(action.model_dump(mode="json")) == text


class Aliased(Action):
    to: Literal["left", "right"] | None = Field(alias="goTo")


class AliasedBothWays(Action):
    first: int = Field(validation_alias="one", serialization_alias="two")
    second: int = Field(alias="one more")


class Generated(Action):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    how_far: int
    which_way: Literal["left", "right"]


@pytest.mark.parametrize(
    "action",
    [
        Aliased.model_validate({"goTo": "left"}),
        Aliased.model_validate({"goTo": None}),
        AliasedBothWays.model_validate({"one": 1, "one more": 2}),
        Generated(how_far=3, which_way="left"),
    ],
)
def test_fields_with_an_alias_are_written_as_they_are_read(action: Action) -> None:
    actions = ActionText(type(action))
    assert actions.read(actions.write(action)).action == action


@given(st.dictionaries(st.sampled_from(["path", "lines", "more"]), st.none() | st.text() | st.lists(st.text())))
def test_a_schema_alone_accepts_no_names_that_the_class_refuses(payload: dict[str, Any]) -> None:
    by_class = ActionText(Write).read(json.dumps(payload))
    by_schema = ActionText(Write.model_json_schema()).read(json.dumps(payload))
    assert by_schema.legal or not by_class.legal


@pytest.mark.parametrize("actions", [ActionText(TALK), ActionText(TALK.model_json_schema())], ids=["class", "schema"])
@pytest.mark.parametrize("action", [Ask(question="why?"), Reply(value=3), Reply(value="x"), Leave(reason="late")])
def test_an_action_of_several_kinds_is_a_json_object_that_names_its_kind(actions: ActionText, action: Action) -> None:
    text = actions.write(action)
    assert json.loads(text)["type"] == getattr(action, "type")  # noqa: B009  # no field of every action
    read = actions.read(f"I say {text}.").action
    assert read is not None
    assert actions.write(read) == text
    assert actions.read('{"type": "leave"}').legal


@pytest.mark.parametrize("actions", [ActionText(TALK), ActionText(TALK.model_json_schema())], ids=["class", "schema"])
@pytest.mark.parametrize(
    "text", ["", "why?", "{}", '{"type": "shout"}', '{"type": "ask"}', '{"type": "ask", "value": 3}']
)
def test_a_text_of_no_kind_is_no_action_and_nothing_stands_for_it(actions: ActionText, text: str) -> None:
    reading = actions.read(text)
    assert not reading.legal
    assert reading.action is None


def test_several_kinds_are_told_with_the_fields_of_each() -> None:
    actions = ActionText(TALK)
    assert not actions.is_free_text
    assert actions.choices == ()
    assert actions.make_single("x") is None
    assert actions.instructions() == (
        'Answer with a JSON object and nothing else. Its keys: "type" (one of ask), "question" (string); or '
        '"type" (one of reply), "value" (any value); or "type" (one of leave), "reason" (string).'
    )


@pytest.mark.parametrize(
    "observation",
    [
        {"metadata": {"task": "Write a.txt, then submit."}},
        {"tool_name": "", "result": None, "done": False, "metadata": {"task": "Write a.txt, then submit."}},
        {"board": [[0, 1]], "text": " ", "metadata": {"seed": 3, "task": "Write a.txt, then submit."}},
    ],
)
def test_text_that_is_only_in_the_metadata_is_noticed(observation: dict[str, Any]) -> None:
    warning = hidden_text_warning(observation)
    assert warning is not None
    assert warning.startswith("The first observation has text only in its metadata ('task'), which no model is shown")


@pytest.mark.parametrize(
    "observation",
    [
        {},
        {"metadata": None},
        {"text": "Write.", "metadata": {"task": "Write a.txt, then submit."}},
        {"cards": {"mine": ["ace"]}, "metadata": {"info": "a sentence of a library"}},
        {"position": 3, "metadata": {"version": "1.2", "step": 4}},
        Observation(metadata={"backend": "numpy"}),
    ],
)
def test_metadata_beside_text_or_without_sentences_is_fine(observation: Any) -> None:
    assert hidden_text_warning(observation) is None


OPTIONAL_CHOICES: list[tuple[Any, list[Any]]] = [
    (Literal["left", "right"], ["left", "right"]),
    (Speed, ["slow", "fast"]),
    (bool, [False, True]),
    (Annotated[int, Field(ge=0, le=2)], [0, 1, 2]),
    (Literal["auto"] | bool, ["auto", False, True]),
    (Literal["only"], ["only"]),
]


@pytest.mark.parametrize(("kind", "values"), OPTIONAL_CHOICES)
@pytest.mark.parametrize("default", [None, ...])
@pytest.mark.parametrize("by_schema", [False, True])
def test_an_optional_choice_is_a_choice_with_null(kind: Any, values: list[Any], default: Any, by_schema: bool) -> None:
    model = create_model("Choice", __base__=Action, choice=(kind | None, default))
    actions = ActionText(model.model_json_schema() if by_schema else model)
    texts = [value if isinstance(value, str) else json.dumps(value) for value in [*values, None]]
    assert actions.choices == tuple(texts)
    assert actions.instructions() == f"Answer with exactly one of these and nothing else: {', '.join(texts)}."
    for text, value in zip(texts, [*values, None], strict=True):
        assert fields_of(actions, text) == {"choice": value}
    assert actions.fallback == ("null" if default is None else texts[(len(values) - 1) // 2])
    assert fields_of(actions, "no such choice") == fields_of(actions, str(actions.fallback))
    player = RandomPlayer(actions, seed=1)
    seen = {json.dumps(actions.write(player({}))) for _ in range(100)}
    assert seen == {json.dumps(text) for text in texts}


def fields_of(actions: ActionText, text: str) -> dict[str, Any]:
    action = actions.read(text).action
    return action.model_dump(mode="json", exclude={"metadata"}) if isinstance(action, BaseModel) else dict(action or {})


@pytest.mark.parametrize(("kind", "values"), OPTIONAL_CHOICES)
@pytest.mark.parametrize("by_schema", [False, True])
def test_an_optional_choice_among_others(kind: Any, values: list[Any], by_schema: bool) -> None:
    model = create_model("Choice", __base__=Action, choice=(kind | None, None), count=(int, 3))
    actions = ActionText(model.model_json_schema() if by_schema else model)
    assert fields_of(actions, "nonsense") == {"choice": None, "count": 3}
    for value in [*values, None]:
        reading = actions.read(json.dumps({"choice": value, "count": 1}))
        assert reading.legal, reading.problem
    assert not actions.read('{"choice": "other", "count": 1}').legal
    RandomPlayer(actions, seed=1)({})


def test_the_default_of_an_optional_text_is_no_text() -> None:
    model = create_model("Say", __base__=Action, words=(str | None, None))
    actions = ActionText(model, fallback=None)
    assert fields_of(actions, "anything") == {"words": "anything"}
    bounded = create_model("Say", __base__=Action, words=(Annotated[str, Field(max_length=3)] | None, None))
    reading = ActionText(bounded).read("anything")
    assert (reading.legal, reading.action) == (False, bounded())


def test_an_optional_number_may_be_null() -> None:
    model = create_model("Bid", __base__=Action, amount=(float | None, ...))
    actions = ActionText(model)
    assert actions.instructions() == "Answer with amount as a number, or null, and nothing else."
    assert fields_of(actions, "null") == {"amount": None}
    large = create_model("Large", __base__=Action, amount=(Annotated[int, Field(ge=0, le=99)] | None, None))
    assert ActionText(large).instructions() == "Answer with amount, from 0 to 99, or null, and nothing else."
