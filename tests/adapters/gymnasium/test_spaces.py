"""Spaces from models, and that their values and JSON are each other's."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model
from pydantic_core import from_json, to_json
from tests.support.environments.gymnasium import Drive, Driven, Move, Place

from openenv import NDArray
from openenv.adapters.gymnasium import action_codec, observation_codec
from openenv.core.env_server.types import Action, Observation
from openenv.core.exceptions import ConfigurationError


class Suit(Enum):
    """Values of two types."""

    SPADES = "spades"
    TRUMP = 1


class Point(BaseModel):
    """A model within a model."""

    x: float
    y: float = Field(default=0.0, ge=0)


class Node(BaseModel):
    """A model that contains itself."""

    below: Optional["Node"]


def of_length(item: Any, length: int) -> Any:
    return Annotated[list[item], Field(min_length=length, max_length=length)]


def of_items(*items: Any) -> Any:
    return tuple.__class_getitem__(items)


def bounded(kind: type, **bounds: Any) -> Any:
    return Annotated[kind, Field(**bounds)]


def model_of(annotation: Any, base: type[BaseModel] = Action) -> type[BaseModel]:
    """A model with one required field."""
    return create_model("Model", __base__=base, field=(annotation, ...))


DIGIT: Any = bounded(int, ge=0, le=9)
BYTE: Any = bounded(int, ge=0, le=255)


@pytest.mark.parametrize(
    ("annotation", "space"),
    [
        (bool, spaces.Discrete(2)),
        (Literal["left", "right", 3], spaces.Discrete(3)),
        (Literal["only"], spaces.Discrete(1)),
        (Suit, spaces.Discrete(2)),
        (bounded(int, ge=-1, le=1), spaces.Discrete(3)),
        (bounded(int, gt=-1, lt=1), spaces.Discrete(1)),
        (bounded(int, ge=1, le=10, multiple_of=3), spaces.Discrete(3)),
        (float, spaces.Box(-np.inf, np.inf, (), np.float32)),
        (bounded(float, ge=-1, le=2), spaces.Box(-1, 2, (), np.float32)),
        (of_length(float, 3), spaces.Box(-np.inf, np.inf, (3,), np.float32)),
        (of_length(of_length(float, 2), 3), spaces.Box(-np.inf, np.inf, (3, 2), np.float32)),
        (of_length(DIGIT, 2), spaces.MultiDiscrete([10, 10])),
        (of_items(DIGIT, bounded(int, ge=1, le=3)), spaces.MultiDiscrete([10, 3])),
        (of_items(DIGIT, Literal["a", "b"]), spaces.MultiDiscrete([10, 2])),
        (of_length(of_length(DIGIT, 2), 2), spaces.Box(0, 9, (2, 2), np.int64)),
        (of_length(of_length(of_length(BYTE, 3), 4), 5), spaces.Box(0, 255, (5, 4, 3), np.uint8)),
        (of_length(of_length(Literal["x", "o", ""], 3), 3), spaces.MultiDiscrete(np.full((3, 3), 3))),
        (of_length(of_length(Literal[4, 9], 1), 2), spaces.MultiDiscrete(np.full((2, 1), 2))),
        (of_length(bool, 4), spaces.MultiBinary((4,))),
        (of_length(of_length(bool, 4), 2), spaces.MultiBinary((2, 4))),
        (
            of_items(bounded(float, ge=0, le=1), bounded(float, le=5)),
            spaces.Box(np.array([0, -np.inf], np.float32), np.array([1, 5], np.float32)),
        ),
    ],
    ids=str,
)
def test_the_space_of_a_field(annotation: Any, space: spaces.Space[Any]) -> None:
    assert action_codec(model_of(annotation)).space == space
    assert observation_codec(model_of(annotation, Observation)).space == space
    assert action_codec(model_of(annotation).model_json_schema()).space == space


@pytest.mark.parametrize(
    ("annotation", "shape", "low", "high"),
    [
        (int, (), -(2**53), 2**53),
        (bounded(int, ge=-5), (), -5, 2**53),
        (bounded(int, le=2**60), (), -(2**53), 2**53),
        (of_length(int, 2), (2,), -(2**53), 2**53),
    ],
    ids=str,
)
def test_integers_without_both_bounds(annotation: Any, shape: tuple[int, ...], low: int, high: int) -> None:
    """Of an action, as far as Gymnasium can sample them exactly; of an observation, all that there are."""
    assert action_codec(model_of(annotation)).space == spaces.Box(low, high, shape, np.int64)
    widest = observation_codec(model_of(annotation, Observation)).space
    assert isinstance(widest, spaces.Box)
    assert widest.contains(np.full(shape, 2**60))
    assert widest.contains(np.full(shape, -(2**63))) == (low != -5)


@pytest.mark.parametrize(
    ("annotation", "inside", "outside"),
    [
        (str, ["", "x" * 9999, "höhe ☂"], [3, None]),
        (bounded(str, min_length=2, max_length=4), ["ab", "☂☂☂☂"], ["a", "abcde"]),
    ],
)
def test_text_may_have_any_characters(annotation: Any, inside: list[Any], outside: list[Any]) -> None:
    space = observation_codec(model_of(annotation, Observation)).space
    assert [text in space for text in inside + outside] == [True] * len(inside) + [False] * len(outside)
    assert space == observation_codec(model_of(annotation, Observation)).space
    assert space != observation_codec(model_of(bounded(str, max_length=7), Observation)).space


def test_several_fields_are_a_dict_and_one_field_is_its_own_space() -> None:
    assert action_codec(Move).space == spaces.Discrete(3)
    place = observation_codec(Place)
    assert isinstance(place.space, spaces.Dict)
    assert list(place.space) == ["around", "name", "position"]
    assert place.decode({"position": -7, "around": [False, True], "name": "x"})["position"] == 0


def test_only_required_fields_of_an_action_count_and_all_where_none_is() -> None:
    drive = action_codec(Drive)
    assert isinstance(drive.space, spaces.Dict)
    assert set(drive.space) == set(Drive.model_fields) - {"metadata", "note"}

    class Optionally(Action):
        speed: bool = True
        turn: bool = False

    optionally = action_codec(Optionally)
    assert isinstance(optionally.space, spaces.Dict)
    assert set(optionally.space) == {"speed", "turn"}
    assert isinstance(action_codec(model_of(Point)).space["x"], spaces.Box)  # type: ignore[index]
    assert set(observation_codec(model_of(Point, Observation)).space) == {"x", "y"}  # type: ignore[call-overload]


def test_an_optional_action_field_is_never_left_empty_and_an_optional_observation_has_no_space() -> None:
    assert action_codec(model_of(bool | None)).space == spaces.Discrete(2)
    with pytest.raises(ConfigurationError, match="field is anyOf of 2 schemas"):
        observation_codec(model_of(bool | None, Observation))


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (int | str, "field is anyOf of 2 schemas"),
        (list[int], "field is a list whose length is not fixed"),
        (bounded(list[int], max_length=3), "field is a list whose length is not fixed"),
        (Annotated[set[int], Field(min_length=2, max_length=2)], "field is a set"),
        (tuple[()], "field is a list of another form than n items"),
        (tuple[int, float], "field is a list of integer and number"),
        (tuple[Literal[1, 2], int], "field is a list of integer and one of listed values"),
        (of_items(of_length(int, 1), of_length(int, 2)), "field is a list of lists with different lengths"),
        (of_length(str, 2), "field is a list of string"),
        (dict[str, int], "field has no fields that are known"),
        (Any, "field is any value"),
        (None, "field is null"),
        (Decimal, "field is anyOf of 2 schemas"),
        (Node, r"field\.below contains itself"),
        (bounded(str, pattern="a+"), "field is text of a special form"),
        (bounded(float, multiple_of=0.5), "field is a multiple of a number"),
        (bounded(int, ge=0, multiple_of=2), "field is a multiple of a number"),
        (bounded(float, gt=1, lt=1.0000000001), "field has bounds between which there is no float32"),
        (bounded(int, ge=3, le=2), "field has bounds between which there is no int64"),
    ],
    ids=str,
)
def test_what_has_no_space_says_why_and_what_to_do(annotation: Any, reason: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"Model: {reason}, for which .* Pass action_space= with encode_action="
    ):
        action_codec(model_of(annotation))


@pytest.mark.parametrize("annotation", [bounded(str, pattern="a+"), bounded(float, multiple_of=0.5)], ids=str)
def test_what_an_observation_may_be_is_less_strict(annotation: Any) -> None:
    observation_codec(model_of(annotation, Observation))


def test_nothing_to_fill_in() -> None:
    with pytest.raises(ConfigurationError, match="Action: it has no fields of its own"):
        action_codec(Action)


@dataclass
class Kind:
    """An annotation, and values that are valid for it."""

    annotation: Any
    values: st.SearchStrategy[Any]


# Up to here float32 does not overflow, of which numpy would warn.
LARGEST = float(np.finfo(np.float32).max)
floats = st.floats(-LARGEST, LARGEST)


@st.composite
def bounded_floats(draw: st.DrawFn) -> Kind:
    low, high = sorted([draw(floats), draw(floats)])
    assume(math.nextafter(low, high) < high)  # room for a number even where neither bound is one
    names = draw(st.sampled_from([("ge", "le"), ("gt", "lt"), ("ge",), ("lt",), ()]))
    bounds = {name: low if name.startswith("g") else high for name in names}
    return Kind(
        bounded(float, **bounds) if bounds else float,
        st.floats(
            low if {"ge", "gt"} & bounds.keys() else -LARGEST,
            high if {"le", "lt"} & bounds.keys() else LARGEST,
            exclude_min="gt" in bounds,
            exclude_max="lt" in bounds,
        ),
    )


@st.composite
def bounded_integers(draw: st.DrawFn) -> Kind:
    low, high = sorted([draw(st.integers(-(2**62), 2**62)), draw(st.integers(-300, 300))])
    bounds: dict[str, int] = draw(st.sampled_from([{"ge": low, "le": high}, {"ge": low}, {"le": high}, {}]))
    values = st.integers(bounds.get("ge", -(2**63)), bounds.get("le", 2**63 - 2))
    return Kind(bounded(int, **bounds) if bounds else int, values)


@st.composite
def choices(draw: st.DrawFn) -> Kind:
    values = draw(
        st.lists(st.text(max_size=3) | st.integers(-9, 9) | st.booleans(), min_size=1, max_size=4, unique_by=repr)
    )
    return Kind(Literal[tuple(values)], st.sampled_from(values))


@st.composite
def texts(draw: st.DrawFn) -> Kind:
    low, more = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    return Kind(bounded(str, min_length=low, max_length=low + more), st.text(min_size=low, max_size=low + more))


scalars = bounded_floats() | bounded_integers() | choices() | st.just(Kind(bool, st.booleans()))
leaves = scalars | texts() | st.just(Kind(Suit, st.sampled_from(Suit)))


@st.composite
def lists(draw: st.DrawFn) -> Kind:
    kind = draw(scalars)
    for length in draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)):
        kind = Kind(of_length(kind.annotation, length), st.lists(kind.values, min_size=length, max_size=length))
    return kind


@st.composite
def tuples(draw: st.DrawFn) -> Kind:
    kinds = draw(st.lists(bounded_floats(), min_size=1, max_size=3))
    return Kind(of_items(*[kind.annotation for kind in kinds]), st.tuples(*[kind.values for kind in kinds]))


@st.composite
def models(draw: st.DrawFn, base: type[BaseModel]) -> tuple[type[BaseModel], st.SearchStrategy[BaseModel]]:
    """A model with fields of any kinds, and valid instances of it."""
    kinds = draw(st.dictionaries(st.sampled_from("abcdef"), leaves | lists() | tuples(), min_size=1, max_size=4))
    fields: dict[str, Any] = {name: (kind.annotation, ...) for name, kind in kinds.items()}
    model: type[BaseModel] = create_model("Model", __base__=base, **fields)
    make: Callable[..., BaseModel] = model
    return model, st.builds(make, **{name: kind.values for name, kind in kinds.items()})


@given(st.data())
def test_every_sample_is_an_action_that_the_server_accepts(data: st.DataObject) -> None:
    model, _ = data.draw(models(Action))
    try:
        codec = action_codec(model)
    except ConfigurationError as error:
        assume("no float32" not in str(error))
        raise
    codec.space.seed(data.draw(st.integers(0, 1000)))
    for _ in range(5):
        sample = codec.space.sample()
        fields = codec.encode(sample)
        model.model_validate_json(to_json(fields))
        assert data_equivalence(codec.decode(fields), as_read(sample, codec.space), exact=True)


def as_read(sample: Any, space: spaces.Space[Any]) -> Any:
    """The value as it is read: Gymnasium samples some numbers as arrays of the shape ``()``, some as scalars."""
    if isinstance(space, spaces.Dict):
        return {name: as_read(value, space[name]) for name, value in sample.items()}
    return np.asarray(sample) if isinstance(space, spaces.Box) else sample


@given(st.data())
def test_every_observation_is_in_its_space(data: st.DataObject) -> None:
    model, instances = data.draw(models(Observation))
    codec = observation_codec(model)
    observation = data.draw(instances)
    value = codec.decode(from_json(observation.model_dump_json()))
    assert value in codec.space
    again = codec.decode(from_json(to_json(codec.encode(value))))
    assert data_equivalence(again, value, exact=True)


def test_every_sample_of_a_field_of_every_kind_is_accepted() -> None:
    codec = action_codec(Drive)
    codec.space.seed(1)
    for _ in range(200):
        Drive.model_validate_json(to_json(codec.encode(codec.space.sample())))


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("gear", "reverse", "expected one of"),
        ("seat", 9, "expected one of"),
        ("seat", True, "expected one of"),
        ("mirrors", [1.0], "expected numbers of the shape"),
        ("board", [["x", "o"], ["x"]], "expected lists of the shape"),
        ("board", [["x", "o"], ["x", 3]], "expected one of"),
        ("shout", None, "expected text"),
    ],
)
def test_what_is_not_as_the_schema_says(field: str, value: Any, complaint: str) -> None:
    codec = observation_codec(Driven)
    fields = {
        "gear": 2, "lamp": True, "seat": 3, "throttle": 0, "mirrors": [0, 1], "radio": [1, 2, 3], "shout": "",
        "wheels": {"angle": 0, "brakes": [True, True]}, "distance": 1, "board": [["x", "o"], ["", ""]],
    }  # fmt: skip
    assert codec.decode(fields) in codec.space
    with pytest.raises((TypeError, ValueError), match=complaint):
        codec.decode({**fields, field: value})


def test_an_array_of_fixed_lengths_is_a_box_of_its_type() -> None:
    class Screen(Observation):
        pixels: Annotated[Any, NDArray("uint8", (84, 84, 4))]

    codec = observation_codec(Screen)
    assert codec.space == spaces.Box(0, 255, (84, 84, 4), np.uint8)
    pixels = np.zeros((84, 84, 4), np.uint8)
    assert codec.decode({"pixels": pixels}) is pixels
    assert np.array_equal(codec.decode({"pixels": pixels.tolist()}), pixels)


def test_numbers_without_bounds_are_a_box_without_bounds() -> None:
    class Sensors(Observation):
        values: Annotated[Any, NDArray("float64", (3,))]

    assert observation_codec(Sensors).space == spaces.Box(-np.inf, np.inf, (3,), np.float64)


@pytest.mark.parametrize(
    ("declared", "reason"),
    [(NDArray("uint8", (None, 4)), "whose shape is not fixed"), (NDArray("bool", (4,)), "of flags")],
)
def test_an_array_without_a_space_is_an_error(declared: NDArray, reason: str) -> None:
    class Seen(Observation):
        values: Annotated[Any, declared]

    with pytest.raises(ConfigurationError, match=reason):
        observation_codec(Seen)
