"""Texts between an environment and a language model: observations as text, actions from text.

An observation is its ``text`` field if it has one, else one line ``name value`` for each field. What an agent fills in
of an action are its required fields, or all fields where none is required; ``metadata`` never counts. Then

- one field with a finite number of values (``Literal``, ``Enum``, ``bool``, an integer with both bounds, each of them
  perhaps optional): the text is one of these values, ``null`` where it may be none;
- one ``str`` field: the whole text; one number: the number;
- anything else, and one of several kinds of actions: a JSON object.

A text that is no legal action gives a `Reading` with a ``problem``. Its ``action`` is then the fallback: the given one;
else the action that the class makes without arguments; else the one in the middle where there is a finite number, which
on a scale such as left, stay, right is the one that does least; else ``None``, and nothing should be sent to the
environment. Lenient reading finds the one value in a text that has words around it, as in ``The answer is "left."``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.json_models import read_model
from openenv.core.schema.reader import constants, finite_values, members, resolved

__all__ = ["ActionText", "Reading", "hidden_text_warning", "observation_fields", "observation_text"]

MAX_CHOICES = 1000
_PLAIN = frozenset({str, int, float, bool, type(None)})
_NOT_SHOWN = frozenset({"done", "reward", "metadata"})
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])")


def observation_fields(observation: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an observation that an agent sees, as JSON values."""
    fields = observation.model_dump(mode="json") if isinstance(observation, BaseModel) else observation
    return {name: value for name, value in fields.items() if name not in _NOT_SHOWN}


def observation_text(observation: BaseModel | Mapping[str, Any]) -> str:
    r"""Return an observation's ``text`` field if that is a string, else a line for each field.

    Example:
        >>> observation_text({"ball": 3, "legal": ["left", "right"], "done": False})
        'ball 3\nlegal left right'
    """
    fields = _json_fields(observation) if isinstance(observation, BaseModel) else observation
    own = fields.get("text")
    if isinstance(own, str):
        return own
    lines = (f"{name} {_value_text(value)}" for name, value in fields.items() if name not in _NOT_SHOWN)
    return "\n".join(map(str.rstrip, lines))


def hidden_text_warning(observation: BaseModel | Mapping[str, Any]) -> str | None:
    """Return a warning that an observation's text is only in its metadata, which no model is shown.

    Returns:
        What to do about it; ``None`` where a field has text, or no entry of ``metadata`` has a sentence.

    Example:
        >>> hidden_text_warning({"metadata": {"task": "Write a.txt."}})  # doctest: +ELLIPSIS
        "The first observation has text only in its metadata ('task'), which no model is shown: ..."
        >>> hidden_text_warning({"text": "Write a.txt.", "metadata": {"task": "Write a.txt."}})
    """
    fields = observation.model_dump(mode="json") if isinstance(observation, BaseModel) else observation
    metadata = fields.get("metadata") or {}
    # One word is a version or a name; a task takes several.
    hidden = [name for name, value in metadata.items() if isinstance(value, str) and len(value.split()) > 1]
    shown = [value for name, value in fields.items() if name not in _NOT_SHOWN]
    if not hidden or any(map(_has_text, shown)):
        return None
    return (
        f"The first observation has text only in its metadata ({', '.join(map(repr, hidden))}), which no model is "
        "shown: put what the agent has to know into a field of the observation, such as text."
    )


def _has_text(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(_has_text, values))


def _json_fields(observation: BaseModel) -> Mapping[str, Any]:
    """Return the fields as JSON values. Most observations hold nothing else, and then nothing is converted."""
    for name, value in observation.__dict__.items():
        if type(value) not in _PLAIN and name not in _NOT_SHOWN:
            return observation.model_dump(mode="json")
    return observation.model_dump(mode="json") if observation.model_extra else observation.__dict__


@dataclass(frozen=True)
class Reading:
    """Action that a text means.

    Attributes:
        action: The action to send, or ``None`` for none.
        problem: Reason why the text is no legal action; ``None`` if it is one.
    """

    action: BaseModel | dict[str, Any] | None
    problem: str | None = None

    @property
    def legal(self) -> bool:
        """Return whether the text is a legal action."""
        return self.problem is None


class ActionText:
    """The text form of an environment's actions.

    Args:
        action: The action's class, or its JSON Schema where the class is not at hand. It may stand for several kinds.
        fallback: The text that an illegal text counts as; ``None`` for the rule of this module.
        lenient: Whether a text with exactly one value in it, of those that are legal, is read as that value.

    Attributes:
        kinds: The fields that an agent fills in, for each kind of action.
        fields: All of these fields.
        choices: The texts of all actions, where there is a finite number of one kind.

    Raises:
        ConfigurationError: The fallback is itself no legal action.

    Example:
        >>> from typing import Literal
        >>> class Move(BaseModel):
        ...     direction: Literal["left", "stay", "right"]
        >>> actions = ActionText(Move)
        >>> actions.choices
        ('left', 'stay', 'right')
        >>> actions.read("left").action
        Move(direction='left')
        >>> actions.read("jump")
        Reading(action=Move(direction='stay'), problem="expected one of left, stay, right; got 'jump'")
    """

    def __init__(
        self, action: type[BaseModel] | Mapping[str, Any], fallback: str | None = None, *, lenient: bool = False
    ) -> None:
        self._action_class = action if isinstance(action, type) else None
        self.schema: Mapping[str, Any] = action.model_json_schema() if isinstance(action, type) else action
        kinds = [member.schema for member in members(self.schema)]
        self.kinds = tuple(map(_agent_fields if len(kinds) == 1 else _kind_fields, kinds))
        self.fields = {name: field for kind in self.kinds for name, field in kind.items()}
        self._required = tuple(kinds[0].get("required", ())) if len(kinds) == 1 else ()
        self._payloads = _finite_payloads(self.fields) if len(self.kinds) == 1 else {}
        self.choices = tuple(self._payloads)
        self._lenient = lenient
        self.fallback, self._fallback_action = self._read_fallback(fallback)

    @property
    def is_free_text(self) -> bool:
        """Return whether any text at all may be an action: it has one ``str`` field."""
        return self._has_one_field and not self.choices and self._only_field.get("type") == "string"

    def read(self, text: str) -> Reading:
        """Read an action.

        Args:
            text: What the model wrote; white space around it does not count.
        """
        try:
            return Reading(self._make(self._payload(text.strip())))
        except _IllegalTextError as error:
            action = self._only_action_in(text) if self._lenient else None
            return Reading(self._fallback_action, str(error)) if action is None else Reading(action)

    def write(self, action: BaseModel | Mapping[str, Any]) -> str:
        """Write an action so that `read` gives it back."""
        fields = _fields_as_read(action) if isinstance(action, BaseModel) else action
        return _payload_text({name: fields[name] for name in self.fields if name in fields}, self.fields)

    def make_single(self, value: Any) -> BaseModel | dict[str, Any] | None:
        """Make an action of one field from that field's value.

        Returns:
            The action, or ``None`` if the action has several fields or the value does not suit.
        """
        if not self._has_one_field:
            return None
        try:
            return self._make(dict.fromkeys(self.fields, value))
        except _IllegalTextError:
            return None

    def instructions(self) -> str:
        """Return a sentence on the form of an action."""
        if len(self.kinds) > 1:
            kinds = "; or ".join(_keys_text(kind) for kind in self.kinds)
            return f"Answer with a JSON object and nothing else. Its keys: {kinds}."
        if not self._has_one_field:
            return f"Answer with a JSON object and nothing else. Its keys: {_keys_text(self.fields)}."
        name, field = next(iter(self.fields.items()))
        what = field.get("description") or name.replace("_", " ")
        if self.choices and len(self.choices) <= 50:
            return f"Answer with exactly one of these and nothing else: {', '.join(self.choices)}."
        null = ", or null," if field.get("nullable") else ""
        if self.choices:
            last = self.choices[-2 if null else -1]
            return f"Answer with {what}, from {self.choices[0]} to {last}{null or ','} and nothing else."
        if field.get("type") in ("integer", "number"):
            return f"Answer with {what} as a number{null} and nothing else."
        return f"Answer with {what} and nothing else."

    @property
    def _has_one_field(self) -> bool:
        return len(self.kinds) == 1 and len(self.fields) == 1

    @property
    def _only_field(self) -> Mapping[str, Any]:
        return next(iter(self.fields.values()))

    def _make(self, payload: dict[str, Any]) -> BaseModel | dict[str, Any]:
        if self._action_class is None:
            return _checked_by_schema(payload, self.schema)
        try:
            return read_model(self._action_class, payload)
        except ValidationError as error:
            raise _IllegalTextError("; ".join(_fault_text(dict(fault)) for fault in error.errors())) from error

    def _payload(self, text: str) -> dict[str, Any]:
        if not self._has_one_field:
            return _json_object(text)
        name = next(iter(self.fields))
        if self.choices:
            return self._chosen(text)
        if self.is_free_text:
            return {name: text}
        return {name: _json_value(text, self._only_field)}

    def _chosen(self, text: str) -> dict[str, Any]:
        if text in self._payloads:
            return self._payloads[text]
        alike = [choice for choice in self.choices if choice.casefold() == text.casefold()]
        if len(alike) == 1:
            return self._payloads[alike[0]]
        raise _IllegalTextError(f"expected one of {', '.join(self.choices[:50])}; got {_shortened(text)!r}")

    def _only_action_in(self, text: str) -> BaseModel | dict[str, Any] | None:
        """Return the action whose value is the only legal one in a text; ``None`` where there is none, or another."""
        if self.choices:
            longest_first = sorted(self.choices, key=len, reverse=True)  # "up left" is not "up"
            values_text = "|".join(map(re.escape, longest_first))
            found = re.findall(rf"(?<!\w)(?<!\d\.)(?:{values_text})(?!\w|\.\d)", text, re.IGNORECASE)
        elif self._has_one_field and self._only_field.get("type") in ("integer", "number"):
            found = _NUMBER.findall(text)
        else:
            return None
        try:
            values = [self._payload(value) for value in found]
            return self._make(values[0]) if values and all(value == values[0] for value in values) else None
        except _IllegalTextError:
            return None

    def _default_payload(self) -> dict[str, Any] | None:
        if len(self.kinds) > 1:
            return None
        if not self._required and all("default" in field for field in self.fields.values()):
            return {name: field["default"] for name, field in self.fields.items()}
        scale = [payload for payload in self._payloads.values() if None not in payload.values()]
        return scale[(len(scale) - 1) // 2] if scale else None

    def _read_fallback(self, text: str | None) -> tuple[str | None, BaseModel | dict[str, Any] | None]:
        """Return the text and the action of the fallback, by default those that the schema suggests."""
        try:
            payload = self._default_payload() if text is None else self._payload(text)
            if payload is None:
                return None, None
            text = _payload_text(payload, self.fields) if text is None else text
            return text, self._make(payload)
        except _IllegalTextError as error:
            raise ConfigurationError(f"The fallback {text!r} is no legal action: {error}.") from error


class _IllegalTextError(Exception):
    """A text is no action; turned into a `Reading` before it leaves this module."""


def _agent_fields(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    properties = {name: field for name, field in schema.get("properties", {}).items() if name != "metadata"}
    required = [name for name in schema.get("required", ()) if name in properties]
    return {name: resolved(properties[name], schema) for name in required or properties}


def _kind_fields(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields to fill in of one kind of several, among them those that identify the kind."""
    chosen = _agent_fields(schema)
    named = {name: resolved(field, schema) for name, field in schema.get("properties", {}).items()}
    return {name: field for name, field in named.items() if name in chosen or name in constants(schema)}


def _fields_as_read(action: BaseModel) -> dict[str, Any]:
    """Return an action's fields under the names by which the schema has them read."""
    fields = action.model_dump(mode="json", by_alias=True)
    for name, field in type(action).model_fields.items():
        read = field.validation_alias if isinstance(field.validation_alias, str) else name
        written = field.serialization_alias or name
        if written in fields:
            fields[read] = fields.pop(written)
    return fields


def _finite_payloads(fields: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return every action by its text, or nothing where there are too many to list."""
    values = [finite_values(field, MAX_CHOICES) for field in fields.values()]
    finite = [options for options in values if options is not None]
    if len(finite) < len(values) or prod(map(len, finite)) > MAX_CHOICES:
        return {}
    payloads = (dict(zip(fields, combination, strict=True)) for combination in product(*finite))
    return {_payload_text(payload, fields): payload for payload in payloads}


def _payload_text(payload: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    if len(fields) != 1:
        return json.dumps(payload, ensure_ascii=False)
    value = next(iter(payload.values()))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json_object(text: str) -> dict[str, Any]:
    """Read the JSON object in a text; prose or a code fence around it is passed over."""
    start, end = text.find("{"), text.rfind("}")
    try:
        value = from_json(text[start : end + 1], allow_inf_nan=False)
    except ValueError as error:
        raise _IllegalTextError(f"expected a JSON object; got {_shortened(text)!r}") from error
    return dict(value)


def _json_value(text: str, field: Mapping[str, Any]) -> Any:
    try:
        # A word-level tokenizer separates the digits of a number.
        joined = "".join(text.split()) if field.get("type") in ("integer", "number") else text
        return from_json(joined, allow_inf_nan=False)
    except ValueError as error:
        if _may_be_text(field):
            return text
        raise _IllegalTextError(f"expected a value of type {field.get('type')}; got {_shortened(text)!r}") from error


def _may_be_text(field: Mapping[str, Any]) -> bool:
    """Return whether text that is no JSON is a value of a field that takes several types, or any."""
    kind = field.get("type", "string" if "anyOf" not in field else None)
    kinds = kind if isinstance(kind, list) else [kind, *(option.get("type") for option in field.get("anyOf", ()))]
    return "string" in kinds


def _checked_by_schema(payload: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Check names and finite values; the server checks the rest of the schema."""
    problems = []
    identifying_fields = schema.get("discriminator", {}).get("propertyName")
    named = [] if identifying_fields is None else [identifying_fields]
    for _, member in members(schema):
        try:
            return _checked_by_member(payload, {**member, "required": [*named, *member.get("required", ())]})
        except _IllegalTextError as error:
            problems.append(str(error))
    raise _IllegalTextError("; or ".join(problems))


def _checked_by_member(payload: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    unknown = [name for name in payload if name not in properties]
    missing = [name for name in schema.get("required", ()) if name not in payload]
    if unknown or missing:
        raise _IllegalTextError(f"expected the keys {', '.join(properties)}; got {', '.join(payload) or 'none'}")
    for name, value in payload.items():
        allowed = finite_values(resolved(properties[name], schema), MAX_CHOICES)
        if allowed is not None and value not in allowed:
            raise _IllegalTextError(f"{name}: expected one of {_value_text(allowed)}; got {_shortened(str(value))!r}")
    return payload


def _fault_text(fault: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}" if where else str(fault["msg"])


def _keys_text(fields: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f'"{name}" ({_field_text(field)})' for name, field in fields.items()) or "none"


def _field_text(field: Mapping[str, Any]) -> str:
    values = finite_values(field, MAX_CHOICES)
    any_value = f"{field.get('type', 'any value')}{' or null' if field.get('nullable') else ''}"
    kind = "one of " + ", ".join(map(_value_text, values[:50])) if values else any_value
    return f"{kind}: {field['description']}" if field.get("description") else kind


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value) in (int, float):
        return str(value)
    if isinstance(value, Sequence) and all(isinstance(item, str | int | float) for item in value):
        return " ".join(map(_value_text, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
