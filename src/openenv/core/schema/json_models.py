"""Models made of JSON that is parsed already, as pydantic makes them of JSON itself.

Pydantic reads values of Python by other rules: a strict model then refuses a date, a set or a nested model that its own
JSON has, and of ``UUID | str`` it makes a text. What a serializer writes beside the fields, computed ones and aliases
of its own, it does not read at all. So a model's core schema is changed where its own JSON would not come back.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticOmit, PydanticSerializationError, SchemaValidator, from_json, to_json

from openenv.core.plain_values import plain_value

ModelT = TypeVar("ModelT", bound=BaseModel)
_Node = dict[str, Any]

# Types of core schemas that make the same of a value of JSON and of its JSON, where nothing is strict.
_ALIKE = frozenset(
    {"any", "bool", "definition-ref", "definitions", "default", "dict", "float", "function-after", "function-before"}
    | {"function-plain", "function-wrap", "int", "list", "literal", "model", "model-field", "model-fields", "none"}
    | {"nullable", "str", "tagged-union", "typed-dict", "typed-dict-field", "union"}
)
# Those that no JSON has a value for: a validator before them makes it.
_OF_PYTHON = frozenset({"callable", "is-instance", "is-subclass"})
# Those that are texts, numbers, arrays or objects in JSON and refuse these as values of Python where they are strict.
_WITHOUT_JSON_TYPE = frozenset(
    {"bytes", "complex", "dataclass", "date", "datetime", "decimal", "enum", "frozenset", "model", "multi-host-url"}
    | {"set", "time", "timedelta", "tuple", "url", "uuid"}
)
_TEMPORAL = frozenset({"date", "datetime", "time", "timedelta"})
# What a model is configured to write, and the same for what it reads.
_UNITS = {"ser_json_bytes": "val_json_bytes", "ser_json_temporal": "val_temporal_unit"}
_UNITS_READ = {"val_json_bytes": ("utf8", "base64", "hex"), "val_temporal_unit": ("seconds", "milliseconds")}
# After these, pydantic goes on with values of Python.
_TO_PYTHON = ("function-before", "function-wrap")
_OF_JSON = {"json-or-python": "json_schema", "lax-or-strict": "lax_schema"}
_NOT_OF_VALUES = frozenset({"config", "computed_fields", "default", "expected", "members", "metadata", "serialization"})


def _omit(_value: Any) -> NoReturn:
    raise PydanticOmit


# Default is what a field has that is absent: it is left out as well.
_OMITTED: _Node = {
    "type": "model-field",
    "schema": {
        "type": "default",
        "schema": {"type": "function-plain", "function": {"type": "no-info", "function": _omit}},
        "default": None,
        "validate_default": True,
    },
}


def read_model(model: type[ModelT], value: Any) -> ModelT:
    """Make a model of parsed JSON.

    Args:
        model: The class. A ``model_validate`` of its own is not called.
        value: The JSON's value, mostly an object's fields, under their names or aliases.

    Raises:
        pydantic.ValidationError: It does not fit the class.
    """
    made: ModelT = model_reader(model)(value)
    return made


@lru_cache(maxsize=1024)
def model_reader(model: type[BaseModel], of_python: bool = False) -> Callable[[Any], Any]:
    """Return the function that makes a class's models of parsed JSON; see ``read_model``.

    Args:
        model: The class.
        of_python: Whether a value may hold what JSON has no form for, such as arrays of NumPy.
    """
    if not model.__pydantic_complete__ and not model.model_rebuild(raise_errors=False):
        return model.model_validate  # which says what is missing
    schema: _Node = dict(model.__pydantic_core_schema__)
    nodes = list(_nodes(schema))
    kinds = {node["type"] for node in nodes}
    is_alike = kinds <= _ALIKE and not any(map(_is_strict, nodes))
    if is_alike and not any(map(_is_written_otherwise, nodes)):
        return _reading(model.__pydantic_validator__)
    relaxed = of_python or not kinds.isdisjoint(_OF_PYTHON)
    read = _reading(_validator(_changed(schema, relaxed=relaxed)))
    if is_alike or relaxed:
        return read
    return partial(_read_json, _validator(_changed(schema, relaxed=False)), _validator(_changed(schema, relaxed=True)))


def reads_alike(model: type[BaseModel]) -> bool:
    """Return whether a class's own validator makes the same of parsed JSON as ``read_model``."""
    reader = model_reader(model)
    return isinstance(reader, partial) and reader.func == model.__pydantic_validator__.validate_python


def _reading(validator: Any) -> Callable[[Any], Any]:
    return partial(validator.validate_python, by_alias=True, by_name=True)


def _read_json(of_json: SchemaValidator, of_python: SchemaValidator, value: Any) -> Any:
    """Write a value as JSON and read that; one that JSON has no form for is read as it is."""
    try:
        text = to_json(value, fallback=plain_value)
    except (PydanticSerializationError, ValueError):
        return of_python.validate_python(value, by_alias=True, by_name=True)
    return of_json.validate_json(text, by_alias=True, by_name=True)


def _validator(schema: _Node) -> SchemaValidator:
    try:  # without those that nested models have already, whose schemas are not changed
        return SchemaValidator(schema, _use_prebuilt=False)
    except TypeError:  # of a pydantic that has no such argument
        return SchemaValidator(schema)


def _nodes(schema: _Node) -> Iterator[_Node]:
    """Yield a core schema and those within it by which JSON is read."""
    yield schema
    for key, value in schema.items():
        if key not in _NOT_OF_VALUES and key != "python_schema":
            for each in _inner(value):
                yield from _nodes(each)


def _inner(value: Any) -> Iterator[_Node]:
    """Yield the core schemas in a part of one, which may be in lists, or in mappings by name."""
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield dict(value)
        else:
            for each in value.values():
                yield from _inner(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _inner(each)


def _is_strict(node: _Node) -> bool:
    return bool(node.get("strict") or (node.get("config") or {}).get("strict"))


def _is_written_otherwise(node: _Node) -> bool:
    """Return whether JSON has further fields, names, or values of literals that the own validator does not read."""
    written, read = node.get("serialization_alias"), node.get("validation_alias")
    members = any(isinstance(value, Enum) for value in node.get("expected", ()))
    return bool(node.get("computed_fields")) or written not in (None, read) or members or _adds_what_it_forbids(node)


def _adds_what_it_forbids(node: _Node) -> bool:
    """Return whether a model has a serializer of its own, which may write fields that the model forbids."""
    forbids = (node.get("config") or {}).get("extra_fields_behavior") == "forbid"
    return forbids and node["type"] == "model" and "serialization" in node


def _changed(node: Any, *, relaxed: bool, config: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return a core schema with the changes for its own JSON.

    Args:
        node: The schema, or a part of one.
        relaxed: Whether it is given values of Python, for which strict types are relaxed that JSON does not have.
        config: Configuration of the model around it.
    """
    if isinstance(node, list | tuple):
        return type(node)(_changed(each, relaxed=relaxed, config=config) for each in node)
    if not isinstance(node, Mapping):
        return node
    kind = node.get("type")
    if not isinstance(kind, str):  # of a mapping by name
        return {name: _changed(each, relaxed=relaxed, config=config) for name, each in node.items()}
    chosen = _OF_JSON.get(kind) if relaxed else None
    if chosen is not None:
        return _changed(node[chosen], relaxed=True, config=config)
    config = node.get("config") or config
    within = relaxed or kind in _TO_PYTHON
    changed = {
        key: value
        if key in _NOT_OF_VALUES
        else _changed(value, relaxed=within or (key == "definitions" and _refers_in_python(node)), config=config)
        for key, value in node.items()
    }
    if (relaxed and kind in _WITHOUT_JSON_TYPE) or _is_number_or_text(kind, config):
        changed["strict"] = False
    if relaxed and "keys_schema" in changed:
        changed["keys_schema"]["strict"] = False
    rewritten = _REWRITERS.get(kind)
    return changed if rewritten is None else rewritten(changed)


def _refers_in_python(node: Mapping[str, Any]) -> bool:
    """Return whether a definition is referred to where pydantic goes on with values of Python."""
    converted = (each for each in _nodes(dict(node)) if each["type"] in _TO_PYTHON)
    return any(inner["type"] == "definition-ref" for each in converted for inner in _nodes(each))


def _is_number_or_text(kind: str, config: Mapping[str, Any]) -> bool:
    """Return whether a model writes a type as a number or a text that the type refuses where it is strict."""
    if kind == "float":
        return config.get("ser_json_inf_nan") == "strings"
    return kind in _TEMPORAL and not config.keys().isdisjoint(("ser_json_timedelta", "ser_json_temporal"))


def _with_keys(node: _Node) -> _Node:
    """Have the keys of a dict read that are no texts: members of an enumeration by their values, and tuples."""
    keys = node.get("keys_schema", {})
    read = _KEYS.get(keys.get("type"))
    if read is None:
        return node
    function = {"type": "no-info", "function": partial(read, keys)}
    items = [{**item, "strict": False} for item in keys.get("items_schema", ())]  # all of them are texts
    plain = {**keys, "strict": False, **({"items_schema": items} if items else {})}
    plain.pop("ref", None)
    of_text = {"type": "function-before", "schema": plain, "function": function}
    return {**node, "keys_schema": {"type": "union", "mode": "left_to_right", "choices": [keys, of_text]}}


def _member_of_key(keys: _Node, key: Any) -> Any:
    """Return the member of an enumeration whose value is written as a key."""
    return next((member for member in keys["members"] if from_json(to_json({member: None})) == {key: None}), key)


def _items_of_key(_keys: _Node, key: Any) -> Any:
    """Return the items of a tuple that is written as a key."""
    return key.split(",") if isinstance(key, str) else key


_KEYS = {"enum": _member_of_key, "tuple": _items_of_key}


def _with_init(node: _Node) -> _Node:
    """Have a model's own ``__init__`` called with values of Python, not with those of JSON.

    Fields that its own serializer adds, and that it forbids, are left out.
    """
    node = _with_units(node)
    if _adds_what_it_forbids(node):
        node = {**node, "config": {**node["config"], "extra_fields_behavior": "ignore"}}
    if not node.get("custom_init") or node.get("root_model"):
        return node
    function = {"type": "no-info", "function": partial(_init, node["cls"])}
    named = {"ref": node["ref"]} if "ref" in node else {}
    return {**named, "type": "function-after", "schema": node["schema"], "function": function}


def _init(model: type[BaseModel], validated: tuple[dict[str, Any], dict[str, Any] | None, set[str]]) -> BaseModel:
    values, further, given = validated
    fields = {model.model_fields[name].alias or name: value for name, value in values.items() if name in given}
    return model(**fields, **(further or {}))


def _with_members(node: _Node) -> _Node:
    """Have a literal of an enumeration's members read by their values."""
    members: dict[type[Enum], list[Enum]] = {}
    for value in node["expected"]:
        if isinstance(value, Enum):
            members.setdefault(type(value), []).append(value)
    if not members:
        return node
    by_value = ({"type": "enum", "cls": kind, "members": found, "strict": False} for kind, found in members.items())
    return {"type": "union", "mode": "left_to_right", "choices": [node, *by_value]}


def _with_units(node: _Node) -> _Node:
    """Have a model read bytes and times in the form in which it writes them."""
    config = node.get("config") or {}
    units = {read: config[written] for written, read in _UNITS.items() if config.get(written) in _UNITS_READ[read]}
    return {**node, "config": {**config, **units}} if units else node


def _with_text(node: _Node) -> _Node:
    """Have what is parsed of a text read as such, too: that is what is written of it."""
    if "schema" not in node:
        return node
    return {"type": "union", "mode": "left_to_right", "choices": [node["schema"], node]}


def _without_computed(node: _Node) -> _Node:
    """Have a model's computed fields left out."""
    computed = node.get("computed_fields", ())
    names = {name for field in computed for name in (field["property_name"], field.get("alias")) if name}
    return {**node, "fields": {**dict.fromkeys(names, _OMITTED), **node["fields"]}}


def _with_alias(node: _Node) -> _Node:
    """Have a field read under the alias with which it is written."""
    written, read = node.get("serialization_alias"), node.get("validation_alias")
    if written is None or written == read:
        return node
    if read is None:
        return {**node, "validation_alias": written}
    paths = [[read]] if isinstance(read, str) else read if isinstance(read[0], list) else [read]
    return {**node, "validation_alias": [*paths, [written]]}


_REWRITERS: dict[str, Callable[[_Node], _Node]] = {
    "dataclass": _with_units,
    "dataclass-field": _with_alias,
    "dict": _with_keys,
    "json": _with_text,
    "literal": _with_members,
    "model": _with_init,
    "model-field": _with_alias,
    "model-fields": _without_computed,
    "typed-dict-field": _with_alias,
}
