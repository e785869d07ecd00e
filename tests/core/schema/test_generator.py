"""What agents are told of functions: as ``transformers`` tells it, and beyond."""

import dataclasses
import inspect
import keyword
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from openenv.core.env_server.types import Action
from openenv.core.exceptions import ConfigurationError, InvalidRequestError
from openenv.core.schema.generator import (
    ToolSignature,
    described_schema,
    faults_text,
    model_description,
    model_parameters,
)

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers


def get_json_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Describe a function as transformers does, which takes seconds to import."""
    from transformers.utils.chat_template_utils import get_json_schema

    return get_json_schema(function)


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Odd(Enum):
    TEXT = "a"
    NUMBER = 2
    NOTHING = None


# --- As transformers has it ------------------------------------------------------------------------------------------

# ``typing`` takes choices in another order for the same, and may hand out those that it saw first: transformers makes
# unions anew. So each hint has its choices in one order.


def union_of(*members: Any) -> Any:
    union = Union[members]  # type: ignore[valid-type]  # noqa: UP007  # found out as the test runs
    if get_origin(union) is not Union:
        return union
    return Union[tuple(sorted(get_args(union), key=repr))]  # noqa: UP007


_literal = st.lists(
    st.one_of(st.text(max_size=5), st.integers(-5, 5), st.booleans(), st.none()), min_size=1, max_size=3
).map(lambda values: Literal[tuple(sorted(values, key=repr))])
_plain = st.sampled_from([int, float, str, bool, Any, list, dict, tuple, Colour, Level, Odd]) | _literal
_hints = st.recursive(
    _plain,
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),  # type: ignore[valid-type]
        inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda two: tuple[two]),  # type: ignore[valid-type]
        inner.map(lambda one: union_of(one, None)),
        st.tuples(inner, inner).map(lambda two: union_of(*two)),
    ),
    max_leaves=5,
)
_words = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Cs")), min_size=1, max_size=40)
_sentence = _words.map(str.strip).filter(
    lambda text: text and not any(title in text for title in ("Args:", "Returns:", "Raises:", "choices:"))
)
_name = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and name not in ("self", "cls", "return")
)
_choices = st.sampled_from(["", ' (choices: ["tea", "coffee"])', " (choices: [1, 2])"])


@st.composite
def functions(draw: st.DrawFn) -> Callable[..., Any]:
    """Functions that transformers knows how to describe."""
    names = draw(st.lists(_name, max_size=4, unique=True))
    hints = {name: draw(_hints) for name in names}
    required = draw(st.integers(0, len(names)))
    described = "".join(f"    {name}: {draw(_sentence)}{draw(_choices)}\n" for name in names)
    more = draw(st.sampled_from(["", "\n\nMore of it,\nin two lines."]))
    doc = f"{draw(_sentence)}{more}\n" + (f"\nArgs:\n{described}" if names else "")
    if draw(st.booleans()):
        doc += "\nReturns:\n    Something.\n"
    return make_function(hints, required, doc)


def make_function(hints: Mapping[str, Any], required: int, doc: str) -> Callable[..., Any]:
    """Make a function without writing code."""

    def function(**arguments: Any) -> Any:
        return arguments

    empty = inspect.Parameter.empty
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=empty if place < required else None,
                annotation=hint,
            )
            for place, (name, hint) in enumerate(hints.items())
        ]
    )
    function.__annotations__ = dict(hints)
    function.__doc__ = doc
    return function


def takes_much(
    a: int,
    b: list | None,  # type: ignore[type-arg]
    c: Literal["x", 1],
    d: dict[str, Any],
    e: Colour | None = None,
    f: float | list[int] = 3,
    g: dict[int, list | tuple] | None = None,  # type: ignore[type-arg]
    h: Annotated[str, "anything"] = "tea",
) -> str:
    """Do much.

    It takes a while,
    as one sees.

    Args:
        a: The first
            of them: in two lines
        b: The second
        c: The third
        d: The fourth
        e: The fifth
        f: The sixth
        g: The seventh
        h: The eighth (choices: ["tea", "coffee"])

    Returns:
        Nothing much.
    """
    return ""


@pytest.mark.level("socket")
@given(functions())
@example(takes_much)
@example(make_function({}, 0, "Nothing to pass."))
def test_schemas_are_those_of_transformers(function: Callable[..., Any]) -> None:
    theirs = get_json_schema(function)["function"]
    ours = ToolSignature(function, "function")
    assert ours.parameters == theirs["parameters"]
    assert ours.description == theirs["description"]


def test_methods_are_described_without_self() -> None:
    class Notes:
        def write(self, path: str) -> None:
            """Write.

            Args:
                path: Where
            """

    assert (
        ToolSignature(Notes.write, "write", is_method=True).parameters
        == (get_json_schema(Notes.write)["function"]["parameters"])
    )


# --- Where transformers gives up -------------------------------------------------------------------------------------


class Point(BaseModel):
    """A place."""

    x: int = Field(ge=0, description="from the left")
    y: int = 0


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


@dataclasses.dataclass
class Span:
    first: int
    last: int = 9


def test_models_stand_in_the_schema_itself() -> None:
    def draw(points: list[Point], span: Span, tone: Annotated[int, Field(ge=1, le=5)] = 1) -> None:
        """Draw."""

    parameters = ToolSignature(draw, "draw").parameters
    point = parameters["properties"]["points"]["items"]
    assert point["properties"]["x"] == {"type": "integer", "minimum": 0, "description": "from the left"}
    assert point["required"] == ["x"]
    assert parameters["properties"]["span"]["properties"]["last"]["default"] == 9
    assert parameters["properties"]["tone"] == {"type": "integer", "minimum": 1, "maximum": 5}
    assert parameters["required"] == ["points", "span"]
    assert "$ref" not in str(parameters)
    checked = ToolSignature(draw, "draw").checked({"points": [{"x": "3"}], "span": {"first": 1}})
    assert checked == {"points": [Point(x=3)], "span": Span(1)}


def test_a_model_in_itself_is_referred_to() -> None:
    def plant(tree: Tree) -> None:
        """Plant."""

    parameters = ToolSignature(plant, "plant").parameters
    assert parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert parameters["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    planted = ToolSignature(plant, "plant").checked({"tree": {"name": "a", "children": [{"name": "b"}]}})
    assert planted["tree"].children == [Tree(name="b")]


def test_without_annotations_and_docstring_anything_goes() -> None:
    def do(it, *, how="well"):  # type: ignore[no-untyped-def]
        return it, how

    signature = ToolSignature(do, "do")
    assert signature.description == ""
    assert signature.parameters == {"type": "object", "properties": {"it": {}, "how": {}}, "required": ["it"]}
    assert signature.checked({"it": [1, {"a": None}]}) == {"it": [1, {"a": None}]}


def test_further_keyword_arguments_are_taken_where_the_function_takes_them() -> None:
    def do(a: int, **others: Any) -> None:
        """Do."""

    signature = ToolSignature(do, "do")
    assert signature.parameters["additionalProperties"] is True
    assert signature.checked({"a": 1, "b": [2]}) == {"a": 1, "b": [2]}


def test_names_that_models_can_t_have_are_names_of_parameters() -> None:
    def do(_a: int, model_config: str, schema: bool, __b: int = 0) -> None:
        """Do."""

    arguments = {"_a": 1, "model_config": "x", "schema": True}
    assert ToolSignature(do, "do").checked(arguments) == arguments


def test_decorated_functions_are_described_as_what_they_wrap() -> None:
    def plain(a: int) -> None:
        """Do.

        Args:
            a: Which.
        """

    @wraps(plain)
    def decorated(*args: Any, **kwargs: Any) -> None:
        plain(*args, **kwargs)

    assert ToolSignature(decorated, "do").parameters == ToolSignature(plain, "do").parameters


def test_a_docstring_of_another_form_is_text() -> None:
    def do(a: int = 0) -> None:
        """Do it.

        Args:
            whatever you like
        """

    assert ToolSignature(do, "do").description == "Do it.\n\nArgs:\n    whatever you like"


@pytest.mark.parametrize("written", ["(choices: tea)", "(choices: 7)", '(choices: {"a": 1})'])
def test_choices_that_are_no_list_are_text(written: str) -> None:
    function = make_function({"a": str}, 1, f"Do.\n\nArgs:\n    a: What {written}\n")
    described = ToolSignature(function, "do").parameters["properties"]["a"]
    assert described == {"type": "string", "description": f"What {written}"}


# --- What can't be a tool --------------------------------------------------------------------------------------------


def test_arguments_must_have_names() -> None:
    def positional(a: int, /) -> None: ...

    def many(*a: int) -> None: ...

    def field(a: int = Field(default=3, ge=1)) -> None: ...

    for function, told in (
        (positional, "Agents pass arguments by their names, which a: int of the tool 'do' does not allow"),
        (many, r"\*a: int"),
        (field, r"as in a: Annotated\[int, Field\(ge=1\)\] = 3"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            ToolSignature(function, "do")


def test_types_without_a_form_in_json_are_refused() -> None:
    class Socket: ...

    def listen(socket: Socket) -> None: ...

    def call(back: Callable[[], None]) -> None: ...

    for function in (listen, call):
        with pytest.raises(ConfigurationError, match=r"The tool 'do' takes what has no form in JSON: "):
            ToolSignature(function, "do")


def test_annotations_that_are_there_for_type_checkers_only_are_refused() -> None:
    def pay(sum_: "OnlyForTypeCheckers") -> None: ...

    def told() -> "OnlyForTypeCheckers":
        raise NotImplementedError

    with pytest.raises(ConfigurationError, match=r"the tool 'pay' name OnlyForTypeCheckers, which is not there"):
        ToolSignature(pay, "pay")
    assert ToolSignature(told, "told").parameters == {"type": "object", "properties": {}}


# --- Arguments -------------------------------------------------------------------------------------------------------


def typed(a: int, b: str = "x", c: Colour | None = None) -> None:
    """Do."""


def test_what_is_left_out_is_left_to_the_function() -> None:
    assert ToolSignature(typed, "typed").checked({"a": 1}) == {"a": 1}
    assert ToolSignature(typed, "typed").checked({"a": "1", "c": "red"}) == {"a": 1, "c": Colour.RED}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d", "", "__class__", "self", '"""']), _json))
def test_any_arguments_fit_or_are_refused(arguments: dict[str, Any]) -> None:
    try:
        checked = ToolSignature(typed, "typed").checked(arguments)
    except InvalidRequestError as error:
        assert 0 < len(error.message) < 4000  # noqa: PT017  # one of two outcomes
        return
    assert checked.keys() == arguments.keys() <= {"a", "b", "c"}
    assert type(checked["a"]) is int
    assert isinstance(checked.get("b", ""), str)


@pytest.mark.parametrize("large", ["x" * 1_000_000, ["x"] * 100_000, {"x" * 1_000_000: 1}])
def test_large_arguments_are_refused_in_few_words(large: Any) -> None:
    for arguments in ({"a": large}, {"a": 1, "b": {"c": large}}, {"a": 1, "x" * 1_000_000: large}):
        with pytest.raises(InvalidRequestError) as caught:
            ToolSignature(typed, "typed").checked(arguments)
        assert len(caught.value.message) < 1000


def test_many_faults_are_counted() -> None:
    with pytest.raises(InvalidRequestError, match=r"; and 21 more$"):
        ToolSignature(typed, "typed").checked({f"key{number}": 1 for number in range(30)})
    assert faults_text([]) == ""


# --- Models ----------------------------------------------------------------------------------------------------------


class Move(Action):
    """Move a piece.

    Attributes:
        to: The square.

    Example::

        Move(to="e4")
    """

    kind: Literal["move"] = "move"
    to: str
    times: int | None = Field(default=None, description="how often")


def test_a_model_s_docstring_describes_its_fields() -> None:
    assert model_description(Move) == "Move a piece."
    assert model_parameters(Move, ("metadata", "kind")) == {
        "type": "object",
        "properties": {
            "to": {"type": "string", "description": "The square."},
            "times": {"type": "integer", "nullable": True, "default": None, "description": "how often"},
        },
        "required": ["to"],
    }


def test_a_model_without_a_docstring_has_no_description() -> None:
    class Undocumented(Action):
        pass

    assert model_description(Undocumented) == ""
    assert model_parameters(Undocumented, ("metadata",)) == {"type": "object", "properties": {}}


def test_a_published_schema_may_refer_to_anything_within_it() -> None:
    properties = {"way": {"$ref": "#/definitions/Way"}, "else": {"$ref": "https://example.org/schema"}}
    schema = {"properties": properties, "definitions": {"Way": {"type": "string", "title": "Way"}}}

    assert described_schema(schema)["properties"] == {
        "way": {"type": "string"},
        "else": {"$ref": "https://example.org/schema"},
    }


def numpy_style(word: str, times: int = 1) -> str:
    """Say a word.

    It is said as often as wished.

    Parameters
    ----------
    word : str
        What to say,
        in one word.
    times : int, optional
        How often. (choices: [1, 2])

    Returns
    -------
    str
        What was said.
    """
    return word * times


def numpy_style_of_several(word: str, times: int = 1) -> str:
    """Say a word.

    Notes
    -----
    Loudly.

    Parameters
    ----------
    word, times
        What to say how often.
    """
    return word * times


def sphinx_style(word: str, times: int = 1) -> str:
    """Say a word.

    It is said as often as :func:`wished`.

    :param word: What to say,
        in one word.
    :param int times: How often. (choices: [1, 2])
    :type word: str
    :returns: What was said.
    :raises ValueError: Never.
    """
    return word * times


def google_style(word: str, times: int = 1) -> str:
    """Say a word.

    It is said as often as :func:`wished`.

    Args:
        word: What to say,
            in one word.
        times (int): How often. (choices: [1, 2])

    Returns:
        What was said.
    """
    return word * times


def google_and_numpy_style(word: str, times: int = 1) -> str:
    """Say a word.

    It is said as often as :func:`wished`.

    Args:
        word (str): What to say,
            in one word.

    Parameters
    ----------
    times : int, optional
        How often. (choices: [1, 2])
    """
    return word * times


def sphinx_and_google_style(word: str, times: int = 1) -> str:
    """Say a word.

    It is said as often as :func:`wished`.

    :param str word: What to say,
        in one word.

    Keyword Args:
        times: How often. (choices: [1, 2])

    Returns:
        What was said.
    """
    return word * times


@pytest.mark.parametrize(
    "function", [numpy_style, sphinx_style, google_style, google_and_numpy_style, sphinx_and_google_style]
)
def test_docstrings_of_every_style_describe_the_arguments(function: Callable[..., Any]) -> None:
    signature = ToolSignature(function, "say")
    assert signature.description.splitlines()[0] == "Say a word."
    assert signature.description.splitlines()[-1].startswith("It is said as often as ")
    assert signature.parameters["properties"] == {
        "word": {"type": "string", "description": "What to say, in one word."},
        "times": {"type": "integer", "enum": [1, 2], "description": "How often."},
    }


def test_a_description_of_several_arguments_is_that_of_each() -> None:
    signature = ToolSignature(numpy_style_of_several, "say")
    assert signature.description == "Say a word."
    fields = signature.parameters["properties"]
    assert fields["word"]["description"] == fields["times"]["description"] == "What to say how often."


@pytest.mark.parametrize(
    "docstring",
    [
        "A move.\n\nAttributes\n----------\nway : str\n    Where to.",
        "A move.\n\nParameters\n----------\nway : str\n    Where to.",
        "A move.\n\n:ivar way: Where to.",
        "A move.\n\n:var str way: Where to.",
        "A move.\n\n:param way: Where to.\n:type way: str",
        "A move.\n\nAttributes:\n    way: Where to.",
    ],
)
def test_docstrings_of_every_style_describe_fields(docstring: str) -> None:
    model: Any = type(
        "Move", (Action,), {"__doc__": docstring, "__annotations__": {"way": str}, "__module__": __name__}
    )
    assert model_description(model) == "A move."
    assert model_parameters(model, ("metadata",))["properties"]["way"]["description"] == "Where to."
    assert described_schema(model.model_json_schema())["properties"]["way"]["description"] == "Where to."


@pytest.mark.parametrize("text", ["Look:\n\n:class:`Thing` is one.", "Steps\n-----\n\nArgs:\n    word: What to say."])
def test_marks_of_another_meaning_are_no_style(text: str) -> None:
    def say(word: str) -> str:
        return word

    say.__doc__ = text
    assert ToolSignature(say, "say").description == text.split("\n\nArgs:")[0]


@given(st.text(alphabet=":-\n PRarmestuwod", max_size=80))
def test_any_docstring_is_read(text: str) -> None:
    def say(word: str) -> str:
        return word

    say.__doc__ = text
    assert ToolSignature(say, "say").parameters["properties"].keys() == {"word"}


@pytest.mark.parametrize(
    "text",
    ["a" + " " * 300_000 + "b", "(choices:" * 60_000, "(choices: [1]) " * 30_000 + "b"],
    ids=["blanks", "beginnings", "choices"],
)
def test_a_long_description_takes_no_time_beyond_its_length(text: str) -> None:
    def move(to: str) -> None:
        """Move."""

    move.__doc__ = f"Move.\n\nArgs:\n    to: {text}"
    assert ToolSignature(move, "move").parameters["properties"]["to"]["description"].startswith(text[:9])
