"""Observations as a terminal shows them."""

import json
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from openenv.adapters.text import observation_fields

MAX_SCALE = 20
MAX_LINE = 76
HERE, ELSEWHERE = "●", "·"


def observation_view(observation: Mapping[str, Any], schema: Mapping[str, Any]) -> Text | Table:
    """Make an observation readable.

    Returns:
        Its ``text`` if it has one, with its colours; of a tool call, its result or what went wrong; else a line for
        each field. A number that its schema bounds to a short range is shown on a scale, which makes a position in a
        game visible.
    """
    fields = observation_fields(observation)
    if fields.keys() == {"tool_name", "result", "error"}:
        return _tool_view(fields)
    if isinstance(fields.get("text"), str):
        return Text.from_ansi(_plain(fields["text"]))
    properties: Mapping[str, Any] = schema.get("properties", {})
    table = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        table.add_row(Text(name, style="dim"), Text.from_ansi(_scale(value, properties.get(name, {})) or _plain(value)))
    return table


def observation_line(observation: Mapping[str, Any]) -> Text | None:
    """Make an observation readable on one line, below a picture; ``None`` where it takes several."""
    fields = observation_fields(observation)
    fields_shown = [f"{name} {_plain(value)}" for name, value in fields.items()]
    line = " · ".join(fields_shown)
    return None if len(line) > MAX_LINE or "\n" in line else Text.from_ansi(line, style="dim")


def missing_fields(observation: Mapping[str, Any], picture: Text) -> dict[str, Any]:
    """Return the fields of an observation that a picture does not show: without texts of which it has every line."""
    fields = observation_fields(observation)
    return {
        name: value for name, value in fields.items() if not isinstance(value, str) or missing_lines(value, picture)
    }


def missing_lines(text: str, picture: Text) -> Text:
    """Return the lines of a text, with their colours, that a picture does not show, however they are spaced."""
    present = {_unspaced(line) for line in picture.split("\n")} - {""}
    lines = [line for line in Text.from_ansi(text.strip("\n")).split("\n") if _unspaced(line) not in present]
    while lines and not _unspaced(lines[-1]):
        lines.pop()
    return Text("\n").join(lines)


def _unspaced(line: Text) -> str:
    return " ".join(line.plain.split())


def _tool_view(fields: Mapping[str, Any]) -> Text:
    error = fields["error"]
    if error is not None:
        return Text(f"Failed: {error['message']}", style="yellow")
    return Text.from_ansi(_plain(fields["result"]))


def _scale(value: Any, field: Mapping[str, Any]) -> str | None:
    """Draw an integer on the range that its schema gives, or return ``None`` if that is unknown or long."""
    low = field.get("minimum", field.get("exclusiveMinimum", 0) + 1 if "exclusiveMinimum" in field else None)
    high = field.get("maximum", field.get("exclusiveMaximum", 0) - 1 if "exclusiveMaximum" in field else None)
    if type(value) is not int or low is None or high is None or not low <= value <= high < low + MAX_SCALE:
        return None
    marks = " ".join(HERE if step == value else ELSEWHERE for step in range(int(low), int(high) + 1))
    return f"{marks}  {value}"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value.rstrip("\n")
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return " ".join(map(str, value))
    return json.dumps(value, indent=2, ensure_ascii=False)
