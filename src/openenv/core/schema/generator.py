"""JSON Schema and description of a function or an action, from its annotations and its docstring.

The schemas have the form that chat templates of language models expect: that of ``transformers.utils.get_json_schema``
for every type that it supports. Models, dataclasses and constrained types work too.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from docstring_parser import Docstring, ParseError, numpydoc, rest
from docstring_parser.google import GoogleParser, Section, SectionType
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import TypedDict

from openenv.core.exceptions import ConfigurationError, InvalidRequestError
from openenv.core.schema.reader import target

# Bounds of the message about invalid arguments: number of faults, and characters of each.
_MOST_FAULTS = 10
_LONGEST_FAULT = 300

_SCALARS: dict[type, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
}
# Pydantic treats a bare ``list`` as ``list[Any]``, whose schema differs.
_BARE = {list: "array", tuple: "array", dict: "object"}

_CHOICES = re.compile(r"\(choices:\s*+((?:(?!\(choices:).)*)\)\s*$", re.IGNORECASE)
_ARGUMENTS = [
    Section(title, "param", SectionType.MULTIPLE)
    for title in ("Args", "Arguments", "Parameters", "Params", "Keyword Args", "Keyword Arguments", "Other Parameters")
]
_OTHERS = [Section("Returns", "returns", SectionType.SINGULAR), Section("Raises", "raises", SectionType.SINGULAR)]
_OF_FUNCTIONS = GoogleParser(_ARGUMENTS + _OTHERS)
_EXAMPLES = [Section(title, "examples", SectionType.SINGULAR) for title in ("Example", "Examples", "Example:")]
_OF_CLASSES = GoogleParser([Section("Attributes", "attribute", SectionType.MULTIPLE), *_EXAMPLES])
# How a docstring shows that it is written in NumPy's style, by an underlined title, or in that of Sphinx, by a field.
_TITLES_OF_NUMPY = (
    "(?:Other )?Parameters|Params|Arguments|Args|Attributes|Returns|Yields|Raises|Warns|Examples?|Notes?|See Also"
)
_TITLE_OF_NUMPY = re.compile(rf"^(?:{_TITLES_OF_NUMPY})[ \t]*\n-{{3,}}[ \t]*$", re.MULTILINE)
_FIELD_OF_SPHINX = re.compile(r"^:\w+[^:\n]*:(?=\s|$)", re.MULTILINE)
_VARIABLE_OF_SPHINX = re.compile(r"^:(?:i|c)?var\b", re.MULTILINE)


class ToolSignature:
    """Signature of a tool: the description of its arguments for agents, and their validation.

    Args:
        function: The function.
        name: Name of the tool, for messages.
        is_method: Whether to leave out the first parameter, which is ``self`` or ``cls``.

    Attributes:
        description: The docstring's text before its sections.
        parameters: JSON Schema of the arguments.

    Raises:
        ConfigurationError: A parameter can't be passed by name, or its annotation has no JSON Schema.
    """

    def __init__(self, function: Callable[..., Any], name: str, *, is_method: bool = False) -> None:
        parameters = parameters_of(function, name, is_method=is_method)
        text = _read_docstring(inspect.getdoc(function), _OF_FUNCTIONS)
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        self.description = text.description
        self._adapter = _adapter(_annotated(function, name, parameters), name, takes_any=takes_any)
        self.parameters = _parameters_schema(_generated(self._adapter, name), text.fields)
        if takes_any:
            self.parameters["additionalProperties"] = True

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated keyword arguments of a call; missing ones get the function's own defaults.

        Raises:
            InvalidRequestError: The arguments are invalid.
        """
        try:
            checked: dict[str, Any] = self._adapter.validate_python(dict(arguments))
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            raise InvalidRequestError(faults_text(faults)) from None
        return checked


def parameters_of(function: Callable[..., Any], name: str, *, is_method: bool) -> list[inspect.Parameter]:
    """List the parameters of a function that an agent passes.

    Args:
        function: The function.
        name: Name of the tool, for messages.
        is_method: Whether to omit the first parameter, which is ``self`` or ``cls``.

    Raises:
        ConfigurationError: A parameter can't be passed by name.
    """
    parameters = list(inspect.signature(function).parameters.values())[1 if is_method else 0 :]
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise ConfigurationError(
                f"Agents pass arguments by their names, which {parameter} of the tool {name!r} does not allow. "
                "Make it an ordinary parameter; many values are a list."
            )
        if isinstance(parameter.default, FieldInfo):
            raise ConfigurationError(
                f"The parameter {parameter.name} of the tool {name!r} has a Field as its default. Put it into the "
                f"annotation, as in {parameter.name}: Annotated[int, Field(ge=1)] = 3."
            )
    return parameters


def model_parameters(model: type[BaseModel], left_out: Iterable[str]) -> dict[str, Any]:
    """Return a model's fields as the parameters of a tool.

    Args:
        model: The model.
        left_out: Properties to omit.
    """
    schema = model.model_json_schema(schema_generator=ToolJsonSchema)
    for name in left_out:
        schema.get("properties", {}).pop(name, None)
    schema["required"] = [name for name in schema.get("required", ()) if name in schema["properties"]]
    return _parameters_schema(schema, _read_docstring(model.__dict__.get("__doc__"), _OF_CLASSES).fields)


def model_description(model: type[BaseModel]) -> str:
    """Return the text of a model's own docstring before its sections."""
    return _read_docstring(model.__dict__.get("__doc__"), _OF_CLASSES).description


def described_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema with the descriptions of its fields, which are taken from its description.

    Args:
        schema: JSON Schema of a model, whose description is the model's docstring.

    Returns:
        The schema without references, with the texts of the docstring's sections in its fields.
    """
    text = _read_docstring(schema.get("description"), _OF_CLASSES)
    return {**_parameters_schema(dict(schema), text.fields), "description": text.description}


def faults_text(faults: Sequence[Mapping[str, Any]]) -> str:
    """Return a short message about invalid arguments, of bounded length.

    Args:
        faults: The faults in pydantic's form.
    """
    shown = [_fault_text(fault)[:_LONGEST_FAULT] for fault in faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        shown.append(f"and {len(faults) - _MOST_FAULTS} more")
    return "; ".join(shown)


def _fault_text(fault: Mapping[str, Any]) -> str:
    where = ".".join(map(str, fault["loc"]))
    return f"{where}: {fault['msg']}" if where else str(fault["msg"])


class ToolJsonSchema(GenerateJsonSchema):
    """JSON Schema generator that writes optional values, unions and choices in the form that chat templates expect."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Mark values that may be ``None`` as ``nullable``."""
        return {**self.generate_inner(schema["schema"]), "nullable": True}

    def union_schema(self, schema: core_schema.UnionSchema) -> JsonSchemaValue:
        """List plain types in one ``type``, others in ``anyOf``."""
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        members = [self.generate_inner(choice) for choice in choices]
        if not all(member.keys() == {"type"} and isinstance(member["type"], str) for member in members):
            return {"anyOf": members}
        types = sorted({member["type"] for member in members})
        return {"type": types[0] if len(types) == 1 else types}

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """List the values with their types."""
        return _choices_schema(schema["expected"]) or super().literal_schema(schema)

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        """List the members' values with their types."""
        return _choices_schema([member.value for member in schema["members"]]) or super().enum_schema(schema)

    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        """Omit the length of a tuple, which follows from its items."""
        described = super().tuple_schema(schema)
        if "prefixItems" in described and "items" not in described:
            described.pop("minItems", None)
            described.pop("maxItems", None)
        return described

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Describe a dict by its values."""
        described = super().dict_schema(schema)
        if described.get("additionalProperties") is True:
            described["additionalProperties"] = {}
        return described

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return ``False``: a title adds nothing to the field's name."""
        return False


@dataclass(frozen=True)
class _Text:
    """Text of a docstring: the description before its sections, and those of arguments or fields."""

    description: str
    fields: Mapping[str, str]


def _read_docstring(docstring: str | None, parser: GoogleParser) -> _Text:
    """Read a docstring in the style of Google, of NumPy or of Sphinx, or in several of them."""
    text = inspect.cleandoc(docstring or "")
    styles = ((parser.titles_re, parser.parse), (_TITLE_OF_NUMPY, numpydoc.parse), (_FIELD_OF_SPHINX, _parse_sphinx))
    found = [(beginning.search(text), parse) for beginning, parse in styles]
    starts = sorted(((match.start(), parse) for match, parse in found if match is not None), key=itemgetter(0))
    if not starts:
        return _Text(text, {})
    ends = [start for start, _ in starts[1:]] + [len(text)]
    try:
        # The parsers take the first line for a summary, and its indentation for none.
        parts = [parse(f"-\n\n{text[start:end]}") for (start, parse), end in zip(starts, ends, strict=True)]
    except ParseError:  # a section of another form counts as text
        return _Text(text, {})
    described = [(name, each) for part in parts for each in part.params for name in each.arg_name.split(",")]
    fields = {name.strip(" *"): _on_one_line(each.description) for name, each in described}
    return _Text(text[: starts[0][0]].strip(), fields)


def _parse_sphinx(text: str) -> Docstring:
    return rest.parse(_VARIABLE_OF_SPHINX.sub(":attribute", text))


def _on_one_line(text: str | None) -> str:
    return " ".join(filter(None, map(str.strip, (text or "").split("\n"))))


def _annotated(function: Callable[..., Any], name: str, parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """Return the type of each parameter, and whether it is required."""
    plain = inspect.unwrap(inspect.unwrap(function, stop=lambda inner: hasattr(inner, "__annotations__")))
    annotations = {
        parameter.name: parameter.annotation for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD
    }
    given = {key: value for key, value in annotations.items() if value is not inspect.Parameter.empty}
    namespace = SimpleNamespace(__annotations__=given, __globals__=getattr(plain, "__globals__", {}))
    try:
        hints = get_type_hints(namespace, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"The annotations of the tool {name!r} name {error.name}, which is not there when the program runs. "
            "Import it outside of `if TYPE_CHECKING:`, at the top of the module."
        ) from error
    required = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
    return {
        key: Required[_marked(hints.get(key, Any))] if key in required else NotRequired[_marked(hints.get(key, Any))]
        for key in annotations
    }


def _marked(annotation: Any) -> Any:
    """Return an annotation in which bare containers are marked, at any depth."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    bare = _BARE.get(origin or annotation) if not arguments and isinstance(origin or annotation, type) else None
    if bare is not None:
        return Annotated[annotation, WithJsonSchema({"type": bare})]
    if origin is Annotated:
        inner, *others = arguments
        return Annotated[(_marked(inner), *others)]
    if origin in (Union, UnionType):
        return Union[tuple(map(_marked, arguments))]  # noqa: UP007  # of types that the program finds out
    if origin in _BARE:
        return origin[tuple(map(_marked, arguments))]
    return annotation


def _adapter(fields: Mapping[str, Any], name: str, *, takes_any: bool) -> TypeAdapter[Any]:
    make: Any = TypedDict  # type checkers accept only literal fields
    arguments = make("Arguments", fields)
    arguments.__pydantic_config__ = ConfigDict(extra="allow" if takes_any else "forbid")
    try:
        return TypeAdapter(arguments)
    except PydanticUserError as error:
        raise _no_form_in_json(name, error) from error


def _generated(adapter: TypeAdapter[Any], name: str) -> dict[str, Any]:
    try:
        return adapter.json_schema(schema_generator=ToolJsonSchema)
    except PydanticUserError as error:
        raise _no_form_in_json(name, error) from error


def _no_form_in_json(name: str, error: PydanticUserError) -> ConfigurationError:
    return ConfigurationError(
        f"The tool {name!r} takes what has no form in JSON: {error.message.splitlines()[0]} Use plain types, "
        "dataclasses or pydantic models in its annotations."
    )


def _parameters_schema(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """Return a tool's schema made from an object's."""
    schema = _without_references(schema)
    properties = {key: _described(field, descriptions.get(key)) for key, field in schema.get("properties", {}).items()}
    described: dict[str, Any] = {"type": "object", "properties": properties}
    for key in ("required", "$defs"):
        if schema.get(key):
            described[key] = schema[key]
    return described


def _described(field: dict[str, Any], description: str | None) -> dict[str, Any]:
    """Add the description of the docstring, else of the annotation; choices at its end become the field's ``enum``."""
    description = description or field.get("description")
    if description is None:
        return field
    choices = _CHOICES.search(description)
    listed = None if choices is None else _json_list(choices.group(1))
    if choices is None or listed is None:
        return {**field, "description": description}
    return {**field, "enum": listed, "description": description[: choices.start()].strip()}


def _json_list(text: str) -> list[Any] | None:
    try:
        choices = json.loads(text)
    except ValueError:
        return None
    if not isinstance(choices, list):
        return None
    return [choice.strip() if isinstance(choice, str) else choice for choice in choices]


def _choices_schema(values: Sequence[Any]) -> JsonSchemaValue | None:
    """Return the schema of a choice of values; ``None`` if one of them is no JSON scalar."""
    values = [value.value if isinstance(value, Enum) else value for value in values]
    if any(type(value) not in _SCALARS for value in values):
        return None
    types = list(dict.fromkeys(_SCALARS[type(value)] for value in values))
    return {"type": types[0] if len(types) == 1 else types, "enum": values}


def _without_references(schema: dict[str, Any]) -> dict[str, Any]:
    """Inline references, which many models' templates do not follow. Recursive references stay."""
    try:
        resolved: dict[str, Any] = _resolved(
            {key: value for key, value in schema.items() if key != "$defs"}, schema, ()
        )
    except RecursionError:
        return schema
    return resolved


def _resolved(node: Any, root: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_resolved(item, root, above) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return {key: _resolved(value, root, above) for key, value in node.items()}
    if reference in above:
        raise RecursionError(reference)
    found = target(reference, root)
    if found is None:
        return node
    about_its_class = ("title", "description") if "enum" in found else ("title",)
    definition = {key: value for key, value in found.items() if key not in about_its_class}
    beside = {key: value for key, value in node.items() if key != "$ref"}
    return _resolved({**definition, **beside}, root, (*above, reference))
