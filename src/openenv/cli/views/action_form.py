"""Form in which a person fills in an action, field by field, by its JSON Schema."""

import json
import sys
from collections.abc import Collection, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from openenv.adapters.text import ActionText
from openenv.core.schema.description import values_of

QUIT, HELP, LITERAL = "q", "?", "\\"
MAX_LISTED = 12


class QuitGameError(Exception):
    """The person stopped, or the input has ended."""


class InputForm:
    """Form of one kind of action, without deprecated fields that have a default."""

    def __init__(self, schema: Mapping[str, Any], console: Console, left_out: Collection[str] = ("metadata",)) -> None:
        required = schema.get("required", ())
        self._fields = [
            FormField(name, schema, name in required)
            for name, field in schema.get("properties", {}).items()
            if name not in left_out and (name in required or not field.get("deprecated"))
        ]
        self._console = console

    @property
    def has_fields(self) -> bool:
        """True if the form has a field."""
        return bool(self._fields)

    def fill(self) -> dict[str, Any]:
        """Read every field.

        Raises:
            QuitGameError: The person typed ``q``, or the input has ended.
        """
        if not self._fields:
            self.confirm("This action has no fields. Enter does it, q quits")
        return _given({field.name: self._read_field(field) for field in self._fields})

    def fill_rest(self, typed: str) -> dict[str, Any]:
        """Use a typed value for the first field that needs one, and read only the others that need one, too.

        Raises:
            QuitGameError: The person typed ``q``, or the input has ended.
        """
        first = next((field for field in self._fields if field.required), self._fields[0])
        needed = [field for field in self._fields if field.required and field is not first]
        answers = {first.name: self._read_field(first, typed)}
        return _given({**answers, **{field.name: self._read_field(field) for field in needed}})

    def confirm(self, question: str) -> None:
        """Wait for Enter, of which ``question`` is the effect.

        Raises:
            QuitGameError: The person typed ``q``, or the input has ended.
        """
        if self._line(question).strip() == QUIT:
            raise QuitGameError

    def show_help(self) -> None:
        """Explain the fields and what else can be typed."""
        self._explain()
        self._console.print(
            f"{QUIT} quits, {HELP} shows this, Enter takes what stands in [ ]; "
            f"{LITERAL}{QUIT} and {LITERAL}{HELP} are just text.",
            style="dim",
            markup=False,
        )
        if any(field.is_free_text for field in self._fields):
            self._console.print(f"A text continues in the next line after a {LITERAL} at its end.", style="dim")

    def remember(self, action: Mapping[str, Any]) -> None:
        """Keep an action's values as those that the form offers next."""
        for field in self._fields:
            if field.name in action:
                field.remember(action[field.name])

    def _explain(self) -> None:
        for field in self._fields:
            self._console.print(f"[bold]{escape(field.name)}[/]  {escape(field.explanation)}")

    def _read_field(self, field: "FormField", typed: str | None = None) -> Any:
        """Read lines until one is a value of a field; ``typed`` is a first line."""
        while True:
            text, typed = self._answer(field) if typed is None else typed, None
            while field.is_free_text and text.endswith(LITERAL):
                text = f"{text.removesuffix(LITERAL)}\n{self._line('...').rstrip()}"
            answer, problem = field.read(text.removeprefix(LITERAL) if text in (r"\q", r"\?") else text)
            if problem is None:
                return answer
            self._console.print(f"[yellow]{escape(problem)}[/]")

    def _answer(self, field: "FormField") -> str:
        """Return a line that neither requests help nor quits."""
        while True:
            text = self._line(field.prompt).strip()
            if text == QUIT and not field.has_choice(QUIT):
                raise QuitGameError
            if text != HELP or field.has_choice(HELP):
                return text
            self.show_help()

    def _line(self, prompt: str) -> str:
        try:
            text = self._console.input(f"[bold cyan]{escape(prompt)}[/] > ")
        except (EOFError, KeyboardInterrupt) as error:
            self._console.print()
            if isinstance(error, KeyboardInterrupt):
                raise
            raise QuitGameError from error
        if not sys.stdin.isatty():  # a terminal has shown it
            self._console.print(text, markup=False)
        return text


class _Omitted:
    """Marker of a field that is left to its default."""


OMITTED = _Omitted()


def _given(answers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: answer for name, answer in answers.items() if answer is not OMITTED}


class FormField:
    """Field of the form; it offers its default or the value last used."""

    def __init__(self, name: str, schema: Mapping[str, Any], required: bool) -> None:
        self.name = name
        self.required = required
        self._key = "value" if name == "metadata" else name  # which is no field of an action, though one of a tool
        only = {"properties": {self._key: schema["properties"][name]}, "required": [self._key]}
        self._text = ActionText({**only, "$defs": schema.get("$defs", {})})
        self._schema = self._text.fields[self._key]
        self._offered = None if required else _typed(self._schema.get("default"))

    @property
    def prompt(self) -> str:
        """The field's name, its possible values, and the value of Enter."""
        offered = "" if self._offered is None else f" [{self._offered}]"
        return f"{self.name}{f' ({self._range})' if self._range else ''}{offered}"

    @property
    def explanation(self) -> str:
        """Description of the field."""
        parts = [self._schema.get("description", "").rstrip("."), self._range or values_of(self._schema)]
        return "; ".join(part for part in parts if part)

    @property
    def is_free_text(self) -> bool:
        """True if it takes any text."""
        return self._text.is_free_text

    def has_choice(self, text: str) -> bool:
        """Return whether a text is one of the values that the field lists."""
        return text in self._text.choices

    def read(self, text: str) -> tuple[Any, str | None]:
        """Return the value of a line and ``None``, or anything and the fault; a choice's beginning may stand for it."""
        if not text and self._offered is not None:
            text = self._offered
        if not text:
            return (None, f"{self.name} needs a value; {HELP} for help.") if self.required else (OMITTED, None)
        reading = self._text.read(self._completed(text))
        if reading.problem is not None:
            return None, reading.problem
        assert isinstance(reading.action, dict)
        return reading.action[self._key], None

    def remember(self, value: Any) -> None:
        """Keep a value as the one to offer next, unless it is free text, which is rarely wanted twice."""
        if not self.is_free_text:
            self._offered = _typed(value)

    @property
    def _range(self) -> str:
        choices = self._text.choices
        is_scale = self._schema.get("type") == "integer" and self._schema.keys().isdisjoint(("enum", "const"))
        if len(choices) > MAX_LISTED or (choices and is_scale):
            is_nullable = self._schema.get("nullable") is True
            return f"{choices[0]} to {choices[-2]}, null" if is_nullable else f"{choices[0]} to {choices[-1]}"
        return ", ".join(choices)

    def _completed(self, text: str) -> str:
        if text in self._text.choices:
            return text
        begun = [choice for choice in self._text.choices if choice.casefold().startswith(text.casefold())]
        return begun[0] if len(begun) == 1 else text


def _typed(value: Any) -> str | None:
    """Write a value as a person types it; ``None`` for an absent value."""
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False)
