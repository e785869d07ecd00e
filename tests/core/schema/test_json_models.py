"""Models of every configuration come back from their own JSON, which was parsed."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast
from uuid import UUID

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    Json,
    RootModel,
    ValidationError,
    computed_field,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from openenv.core.schema.json_models import read_model, reads_alike

DAY = date(2020, 2, 3)
Extra = Literal["ignore", "allow", "forbid"]


class Colour(Enum):
    RED = "r"
    BLUE = "b"


class Number(IntEnum):
    ONE = 1


@dataclass
class Visit:
    on: date
    count: int = 0


class Point(NamedTuple):
    x: int
    on: date


class Entry(TypedDict):
    on: date


class Inner(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    on: date
    pair: tuple[int, int]

    @computed_field
    def double(self) -> int:
        return 2 * self.pair[0]


def config(strict: bool, extra: Extra | None = None, **more: Any) -> ConfigDict:
    settings: Any = {"strict": strict, **more} | ({} if extra is None else {"extra": extra})
    return cast("ConfigDict", settings)


INNER = Inner(on=DAY, pair=(1, 2))


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int = 1

    @computed_field(alias="twice")
    def double(self) -> int:
        return 2 * self.n


def every_type(strict: bool, extra: Extra) -> BaseModel:
    class EveryType(BaseModel):
        model_config = config(strict, extra, ser_json_bytes="base64", ser_json_timedelta="float")
        inner: Inner = INNER
        opened: Open = Open.model_validate({"n": 3, "other": [4]})
        several: list[Inner] = [INNER]
        by_number: dict[int, Decimal] = {1: Decimal("1.50")}
        by_day: dict[date, set[str]] = {DAY: {"a"}}
        colours: frozenset[Colour] = frozenset({Colour.RED})
        raw: bytes = b"\xff\x00"
        colour: Colour = Colour.BLUE
        number: Number = Number.ONE
        id_or_text: UUID | str = UUID(int=5)
        text_or_id: str | UUID = "x"
        day_or_none: date | int | None = DAY
        at: datetime = datetime(2020, 1, 1, 2, 3, 4, 5, tzinfo=UTC)
        clock: time = time(1, 2)
        lasts: timedelta = timedelta(days=1, seconds=2)
        address: IPv4Address = IPv4Address("192.0.2.1")
        path: Path = Path("/a")
        complex_number: complex = 1 + 2j
        url: HttpUrl = HttpUrl("http://a/b")
        choice: Literal[Colour.RED, "x", 3] = Colour.RED
        parsed: Json[list[int]] = Field(default="[1,2]", validate_default=True)
        days: tuple[date, ...] = (DAY,)
        point: Point = Point(1, DAY)
        visit: Visit = Visit(DAY)
        entry: Entry = Field(default_factory=lambda: Entry(on=DAY))
        pattern: re.Pattern[str] = re.compile("a+")
        real: float = 3
        large: int = 10**30

        @computed_field
        def first(self) -> date:
            return self.days[0]

    return EveryType.model_validate({"more": [1]} if extra == "allow" else {})


def aliases(strict: bool, extra: Extra) -> BaseModel:
    class Aliases(BaseModel):
        model_config = config(strict, extra)
        a: date = Field(default=DAY, serialization_alias="AA")
        b: int = Field(default=2, validation_alias="B1", serialization_alias="B2")
        c: set[int] = Field(default={1}, alias="see")
        d: int = Field(default=4, validation_alias=AliasChoices("d1", AliasPath("d2", 0)))
        e: int = Field(default=5, validation_alias=AliasPath("e2", 0), serialization_alias="e9")

        @computed_field(alias="CC")
        def computed(self) -> int:
            return 1

    return Aliases.model_validate({"B1": 7, "see": {8}, "d1": 9})


def generated_aliases(strict: bool, extra: Extra) -> BaseModel:
    class Generated(BaseModel):
        model_config = config(strict, extra, alias_generator=to_camel, serialize_by_alias=True)
        first_day: date = DAY
        inner_list: list[Inner] = [INNER]

    return Generated()


def names_alone(strict: bool, extra: Extra) -> BaseModel:
    class Names(BaseModel):
        model_config = config(strict, extra, validate_by_alias=False, validate_by_name=True)
        first_day: date = Field(default=DAY, alias="firstDay")

    return Names.model_validate({"first_day": date(2022, 1, 1)})


def validators(strict: bool, extra: Extra) -> BaseModel:
    class Validated(BaseModel):
        model_config = config(strict, extra)
        on: date
        inner: Inner
        further: list[Inner] = [INNER]
        colours: set[Colour]
        by_number: dict[int, int]
        address: IPv4Address

        @model_validator(mode="before")
        @classmethod
        def before(cls, value: Any) -> Any:
            return value

        @field_validator("colours", mode="wrap")
        @classmethod
        def around(cls, value: Any, handler: Callable[[Any], Any]) -> Any:
            return handler(value)

    return Validated(on=DAY, inner=INNER, colours={Colour.RED}, by_number={1: 2}, address=IPv4Address("192.0.2.1"))


def unions(strict: bool, extra: Extra) -> BaseModel:
    class Cat(BaseModel):
        model_config = config(strict)
        kind: Literal["cat"] = Field("cat", alias="type")
        born: date = DAY

    class Dog(BaseModel):
        model_config = config(strict)
        kind: Literal["dog"] = Field("dog", alias="type")
        born: date = DAY

    class Pets(BaseModel):
        model_config = config(strict, extra)
        pet: Cat | Dog = Field(Dog(), discriminator="kind")
        pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = [Cat()]
        either: Cat | Dog | None = Dog()

    return Pets()


class Tree(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    on: date = DAY
    branches: list["Tree"] = []

    @computed_field
    def count(self) -> int:
        return len(self.branches)


def recursive(_strict: bool, _extra: Extra) -> BaseModel:
    return Tree(branches=[Tree(branches=[Tree()])])


def own_init(strict: bool, extra: Extra) -> BaseModel:
    class Own(BaseModel):
        model_config = config(strict, extra)
        on: date = Field(alias="day")
        inner: Inner
        _seen: bool = False

        def __init__(self, **values: Any) -> None:
            super().__init__(**values)
            self._seen = True

    class Outer(BaseModel):
        model_config = config(strict, extra)
        own: list[Own]

    return Outer(own=[Own(day=DAY, inner=INNER)])


def units(strict: bool, extra: Extra) -> BaseModel:
    class Units(BaseModel):
        model_config = config(strict, extra, ser_json_inf_nan="strings", ser_json_bytes="hex", frozen=True)
        real: float = float("inf")
        raw: list[bytes] = [b"\xff"]

    return Units()


def roots(strict: bool, _extra: Extra) -> BaseModel:
    class Roots(RootModel[list[Inner]]):
        model_config = config(strict)

    return Roots([INNER])


class Level(Enum):
    LOW = 1
    HIGH = 2.5
    ON = True
    NAMED = "named"


def keys(strict: bool, extra: Extra) -> BaseModel:
    class Keys(BaseModel):
        model_config = config(strict, extra)
        levels: dict[Level, int] = dict.fromkeys(Level, 1)
        cells: dict[tuple[int, str], date] = {(1, "a"): DAY}
        nested: list[dict[Level, dict[Colour, Inner]]] = [{Level.HIGH: {Colour.RED: INNER}}]

    return Keys()


def own_serializers(strict: bool, extra: Extra) -> BaseModel:
    class Part(BaseModel):
        model_config = config(strict, extra)
        n: int = 1

        @model_serializer(mode="wrap")
        def with_more(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
            return {**handler(self), "n": self.n} | ({} if extra == "allow" else {"more": 2})

    class Whole(Part):
        part: Part = Part()
        parts: tuple[Part, ...] = (Part(),)

    return Whole()


KINDS = (
    every_type,
    keys,
    own_serializers,
    aliases,
    generated_aliases,
    names_alone,
    validators,
    unions,
    recursive,
    own_init,
    units,
    roots,
)


@pytest.mark.parametrize("extra", ["ignore", "allow", "forbid"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("make", KINDS)
def test_what_was_written_comes_back(make: Callable[[bool, Extra], BaseModel], strict: bool, extra: Extra) -> None:
    model = make(strict, extra)
    for by_alias in (None, True, False):
        written = json.loads(model.model_dump_json(by_alias=by_alias))
        assert read_model(type(model), written) == model


def test_a_strict_model_stays_strict() -> None:
    for wrong in ({"on": "2020-02-03", "pair": ["1", 2]}, {"on": 3, "pair": [1, 2]}, {"on": "x", "pair": [1, 2]}):
        with pytest.raises(ValidationError):
            read_model(Inner, wrong)
    with pytest.raises(ValidationError, match="Extra inputs"):
        read_model(Inner, {"on": "2020-02-03", "pair": [1, 2], "triple": 3})


def test_values_of_python_are_read_too() -> None:
    class Kept(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True, strict=True)
        gate: Path | None = None
        thing: Any = None
        on: date = DAY

    thing = object()
    assert read_model(Kept, {"thing": thing, "on": "2020-02-03"}).thing is thing
    assert read_model(Inner, {"on": DAY, "pair": (1, 2)}) == INNER


def test_models_of_plain_types_are_read_by_their_own_validator() -> None:
    class Plain(BaseModel):
        text: Literal["x", "y"] = "x"
        numbers: list[int] = []
        further: dict[str, Any] = {}
        maybe: int | None = None

    assert reads_alike(Plain)
    assert not reads_alike(Inner)


def test_a_class_that_names_one_to_come_says_what_is_missing() -> None:
    class Waiting(BaseModel):
        later: "NotThere"  # type: ignore[name-defined]  # noqa: F821  # what is tried

    with pytest.raises(Exception, match="not fully defined"):
        read_model(Waiting, {"later": 3})
