"""Tools as methods: what transformers makes of them means what the environment said."""

import inspect
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import get_json_schema

from openenv.core.env_server.mcp_types import Tool
from openenv.train.tools.tool_methods import ToolMethod


class Recorder:
    """Stands for an environment: notes what was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []


def call(recorder: Recorder, name: str, arguments: dict[str, Any]) -> str:
    recorder.calls.append((name, arguments))
    return "done"


def method_of(tool: Tool) -> Any:
    """The method, bound to an instance as TRL has it."""
    made = type("Made", (Recorder,), {"method": ToolMethod(tool).function(call, "Made.method")})
    return made().method


def tool(properties: dict[str, Any], required: tuple[str, ...] = (), description: str = "Do it.", **more: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return Tool(name="act", description=description, input_schema=schema)


def function_of(made: Tool) -> dict[str, Any]:
    schema: dict[str, Any] = get_json_schema(method_of(made))["function"]
    return schema


def meaning(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema with what stands behind its description put back."""
    description = schema["description"]
    found = re.search(r" \(JSON Schema: (\{.*\})\)\.?$", description, re.DOTALL)
    own = {key: value for key, value in schema.items() if key != "description"}
    if found is None:
        return own
    rest = json.loads(found[1])
    # What stands there for a union says all but whether it may be null.
    said = {key: value for key, value in own.items() if key == "nullable"} if "anyOf" in rest else own
    return {**said, **rest}


# --- Schemas as servers send them -------------------------------------------------------------------------------------

scalars = st.one_of(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer"},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "string", "minLength": 1, "maxLength": 9},
            {"type": "integer", "minimum": 0, "exclusiveMaximum": 10},
            {"type": "string", "pattern": "^(choices: .*)$"},
            {},
        ]
    ),
    st.lists(st.sampled_from(["left", "right", "Args: x", 1, 2.5, True]), min_size=1, unique_by=repr).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from(["only", 7]).map(lambda value: {"const": value}),
)


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        inner.map(lambda items: {"type": "array", "items": items}),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: {"type": "array", "prefixItems": items}),
        inner.map(lambda values: {"type": "object", "additionalProperties": values}),
        st.lists(inner, min_size=1, max_size=3).map(lambda members: {"anyOf": [*members, {"type": "null"}]}),
        st.lists(inner, min_size=2, max_size=3).map(lambda members: {"oneOf": members}),
        st.dictionaries(st.sampled_from(["x", "title", "größe"]), inner, min_size=1).map(
            lambda fields: {"type": "object", "properties": fields, "required": list(fields)}
        ),
    )


fields = st.recursive(scalars, _nested, max_leaves=6)
texts = st.text(max_size=60) | st.sampled_from(
    [
        "Args:\n  x: y",
        "One.\n\nReturns:\n    It.",
        "Pick (choices: red)",
        'Pick (choices: ["a"])',
        "a:\n b: c",
        "\u2028x",
        "",
    ]
)
keys = st.sampled_from(["word", "top-k", "class", "self", "return", "größe", "1st", "", "a b", "a_b", "cls", "²"])


def plain(schema: Any) -> Any:
    """The same schema in the one form that hints have for it, written independently of the code."""
    if not isinstance(schema, dict):
        return schema
    members = schema.get("anyOf", schema.get("oneOf"))
    if members is not None:
        others = [plain(member) for member in members if member != {"type": "null"}]
        found = others[0] if len(others) == 1 else {"anyOf": others}
        return {**found, "nullable": True} if len(others) < len(members) else found
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    made: dict[str, Any] = {key: value for key, value in schema.items() if key not in ("const", "title")}
    if values is not None:
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        types = list(dict.fromkeys(names[type(value)] for value in values))
        made |= {"enum": values, "type": types[0] if len(types) == 1 else types}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = plain(made[key])
    if "prefixItems" in made:
        made["prefixItems"] = list(map(plain, made["prefixItems"]))
    if "properties" in made:
        made["properties"] = {name: plain(value) for name, value in made["properties"].items()}
    return made


def flat(schema: Any) -> Any:
    """A union of plain types as ``anyOf`` or as a list of types: both mean the same. Order means nothing."""
    if isinstance(schema, list):
        return [flat(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {key: flat(value) for key, value in schema.items()}
    kinds = made.pop("type", None)
    if isinstance(kinds, list) and "enum" not in made and "anyOf" not in made:  # which says more
        return flat({**made, "anyOf": [{"type": kind} for kind in kinds]})
    if kinds is not None and "anyOf" not in made:
        made["type"] = kinds
    if "anyOf" in made:
        flattened: list[Any] = []
        for member in made["anyOf"]:
            inner = member.get("anyOf") if set(member) <= {"anyOf", "nullable"} else None
            flattened += inner or [{k: v for k, v in member.items() if k != "nullable"}]
            if member.get("nullable"):
                made["nullable"] = True
        unique = {json.dumps(member, sort_keys=True): member for member in flattened}
        if len(unique) == 1:
            made = {**{k: v for k, v in made.items() if k != "anyOf"}, **next(iter(unique.values()))}
        else:
            made["anyOf"] = [unique[key] for key in sorted(unique)]
    return made


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, st.tuples(fields, texts, st.booleans()), max_size=4), texts)
@example({"word": ({"type": "integer", "default": 3}, "Say it (choices: red)", False)}, "")
def test_transformers_makes_of_a_method_what_the_tool_says(
    parameters: dict[str, tuple[dict[str, Any], str, bool]], description: str
) -> None:
    made = tool(
        {key: {**field, "description": text} for key, (field, text, _) in parameters.items()},
        tuple(key for key, (_, _, required) in parameters.items() if required),
        description,
    )
    made_method = ToolMethod(made)

    found = get_json_schema(method_of(made))

    assert found == made_method.schema()
    shown = found["function"]["parameters"]
    names = {parameter.key: parameter.name for parameter in made_method.parameters}
    assert list(shown["properties"]) == [names[key] for key in parameters]
    assert set(shown.get("required", ())) == {names[key] for key, (_, _, required) in parameters.items() if required}
    for key, (field, _, _) in parameters.items():
        assert flat(meaning(shown["properties"][names[key]])) == flat(plain(field))


def test_names_that_python_does_not_take_are_given_back_to_the_tool() -> None:
    names = ("class", "top-k", "top_k", "self", "1st", "")
    method = method_of(tool({name: {"type": "integer"} for name in names}, names))

    shown = list(inspect.signature(method).parameters)
    assert method(**dict(zip(shown, range(6), strict=True))) == "done"

    assert len(set(shown)) == 6
    assert all(name.isidentifier() for name in shown)
    assert method.__self__.calls == [("act", dict(zip(names, range(6), strict=True)))]


def test_arguments_may_come_by_their_place_and_unknown_ones_are_passed_on() -> None:
    method = method_of(tool({"maybe": {"type": "integer"}, "word": {"type": "string"}}, ("word",)))

    method("crane", 3)
    method("crane", more=1)

    assert method.__self__.calls == [("act", {"word": "crane", "maybe": 3}), ("act", {"word": "crane", "more": 1})]
    with pytest.raises(TypeError, match="takes 2 arguments, got 3"):
        method("a", 1, 2)
    with pytest.raises(TypeError, match="several values for word"):
        method("a", word="b")


def test_defaults_are_told_and_not_sent() -> None:
    method = method_of(tool({"count": {"type": "integer", "default": 3}}))

    method()

    assert inspect.signature(method).parameters["count"].default == 3
    assert '(JSON Schema: {"default": 3})' in method.__doc__
    assert method.__self__.calls == [("act", {})]


def test_a_recursive_schema_is_told_with_what_it_refers_to() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}
    made = tool({"node": {"$ref": "#/$defs/Node"}}, ("node",))
    made.input_schema["$defs"] = {"Node": node}

    function = function_of(made)

    assert function["parameters"]["properties"]["node"]["type"] == "object"
    assert '"$ref": "#/$defs/Node"' in function["parameters"]["properties"]["node"]["description"]
    assert '"$defs"' in function["description"]


def test_a_tool_without_any_description_has_one() -> None:
    assert function_of(tool({}, description=""))["description"] == "act."
    assert function_of(tool({"top_k": {}}, description=""))["parameters"]["properties"] == {
        "top_k": {"description": "top k"}
    }


def test_a_tool_that_takes_further_arguments_says_so() -> None:
    assert "additionalProperties" in function_of(tool({}, additionalProperties=True))["description"]
    assert "additionalProperties" not in function_of(tool({}, additionalProperties=False))["description"]
