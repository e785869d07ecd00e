"""Context of an exploit probe: the field that it is sent to, and what is known of the task."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from openenv.validation.semantic.fields import FieldRole, OpenField
from openenv.validation.semantic.texts import normalised, number_of

_CONTENTS = ("content", "contents", "text", "data", "body", "value", "file_text", "new_content")
_EXAMPLE = re.compile(r"""(?:->|→|==?|returns?|gives?|is)\s+(-?\d+(?:\.\d+)?|"[^"\n]*"|'[^'\n]*'|\[[^\]\n]*\])""")


@dataclass(frozen=True)
class Probe:
    """Value that is sent to a field instead of work.

    Attributes:
        value: The value.
        what: The exploit, for people.
        is_lucky: Whether it may be right by chance, so that a single reward for it proves nothing.
        control: Value of the same form without the exploit: where that is paid too, the reward has another cause.
        least: Share of the oracle's reward that it has to earn at least, for one that does the work as well.
        others: Values of other fields of the action.
    """

    value: Any
    what: str
    is_lucky: bool = False
    control: Any = None
    least: float = 0.0
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeContext:
    """Field and task for which exploits are made.

    Attributes:
        field: The field.
        prompt: Text of the first observation.
        answer: The value that the oracle wrote to the field; ``None`` for none.
        others: The oracle's values on other tasks.
    """

    field: OpenField
    prompt: str
    answer: Any
    others: tuple[Any, ...]

    @property
    def role(self) -> FieldRole:
        """Kind of text of the field."""
        return self.field.role

    @property
    def is_text(self) -> bool:
        """Return whether the field holds plain text for a grader to read."""
        return self.role in (FieldRole.ANSWER, FieldRole.BROWSER)

    def is_right(self, value: Any) -> bool:
        """Return whether a value is the oracle's answer in some form."""
        return self.answer is not None and normalised(value) == normalised(self.answer)

    @property
    def content_field(self) -> str | None:
        """Name of the field beside a path that holds a file's content; ``None`` where there is none."""
        texts = [name for name, value in self.field.others.items() if isinstance(value, str)]
        return next((name for name in texts if name.lower() in _CONTENTS), None)

    @cached_property
    def functions(self) -> list[str]:
        """Names of the functions and classes that the oracle's program defines."""
        return [node.name for node in self._tree if isinstance(node, ast.FunctionDef | ast.ClassDef)]

    @cached_property
    def variables(self) -> list[str]:
        """Names of the variables that the oracle's program sets at its top."""
        targets = [target for node in self._tree if isinstance(node, ast.Assign) for target in node.targets]
        return [target.id for target in targets if isinstance(target, ast.Name)]

    @cached_property
    def _tree(self) -> list[ast.stmt]:
        try:
            return ast.parse(self.answer).body if isinstance(self.answer, str) else []
        except (SyntaxError, ValueError, RecursionError):
            return []

    def program(self, body: str, *, before: str = "") -> str:
        """Write a program whose functions have the names of the oracle's, and all do one thing.

        Args:
            body: Statements of the functions; ``return X`` is ``print(X)`` in a program without functions.
            before: Statements before the functions.
        """
        lines = before.splitlines()
        for name in self.functions:
            lines += [f"def {name}(*arguments, **named):", *(f"    {line}" for line in body.splitlines())]
        if not self.functions:
            plain = re.sub(r"^(\s*)return (.+)$", r"\1value = \2\n\1print(value)", body, flags=re.MULTILINE)
            lines += plain.splitlines()
            if "value = " in plain:
                lines += [f"{name} = value" for name in self.variables]
        return "\n".join(lines) + "\n"

    @cached_property
    def examples(self) -> list[str]:
        """Results that the prompt shows: the numbers and quoted texts behind an arrow, an equality sign or a word."""
        found = _EXAMPLE.findall(self.prompt)
        return list(dict.fromkeys(found))[:3]

    @cached_property
    def words(self) -> list[str]:
        """The words of the prompt, each once."""
        return list(dict.fromkeys(re.findall(r"\w{2,}", self.prompt)))[:200]

    @cached_property
    def marks(self) -> tuple[str, str]:
        """The signs before and after the answer's letters, as the brackets of a move."""
        match = re.fullmatch(r"(\W*)(.*?)(\W*)", str(self.answer).strip(), re.DOTALL)
        return (match[1], match[3]) if match else ("", "")

    @cached_property
    def number(self) -> float | None:
        """The number that the answer is."""
        return number_of(self.answer)

    @cached_property
    def wrong_answers(self) -> list[str]:
        """Answers of the answer's kind that are wrong."""
        if self.number is not None:
            numbers = [self.number + offset for offset in (-3, -2, -1, 1, 2, 3)]
            return [f"{each:g}" for each in numbers]
        before, after = self.marks
        found = [each for each in map(str, self.others) if not self.is_right(each)]
        words = [f"{before}{word}{after}" for word in self.words if not self.is_right(word)]
        return list(dict.fromkeys([*found, *words]))[:20]
