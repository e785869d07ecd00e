"""Help of every command and subcommand, from the commands themselves: no width, colour or drawing is in it."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer
from typer.utils import get_params_from_function

from openenv.cli.__main__ import COMMANDS, app, load_command

# Options of Typer's, with its texts.
_COMPLETION = {"install_completion", "show_completion"}


def help_of_commands(folder: Path) -> dict[str, Any]:
    """Return the help of each command by its name, such as ``openenv traces list``."""
    root = typer.main.get_command(app)
    described = {"openenv": {**_fields(root), "commands": {name: each.summary for name, each in COMMANDS.items()}}}
    for name in COMMANDS:
        described.update(_described(f"openenv {name}", load_command(name)))
    return described


def _described(name: str, command: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    below = getattr(command, "commands", {})
    yield name, {**_fields(command), **({"commands": list(below)} if below else {})}
    for part, child in below.items():
        yield from _described(f"{name} {part}", child)


def _fields(command: Any) -> dict[str, Any]:
    types = _declared(command.callback) if command.callback else {}
    parameters = [each for each in command.params if each.name not in _COMPLETION]
    fields: dict[str, Any] = {
        "help": inspect.cleandoc(command.help or ""),
        "parameters": {_names(each): _parameter(each, types.get(each.name)) for each in parameters},
        "order": [_names(each) for each in parameters],
    }
    optional = {"epilog": command.epilog, "short help": command.short_help, "hidden": command.hidden or None}
    fields |= {key: value for key, value in optional.items() if value is not None}
    return fields


def _declared(callback: Callable[..., Any]) -> Mapping[str, Any]:
    """Return a command's parameters with their types, those that a decorator has added included."""
    return get_params_from_function(inspect.unwrap(callback, stop=lambda each: "__signature__" in vars(each)))


def _names(parameter: Any) -> str:
    return " ".join([*parameter.opts, *parameter.secondary_opts])


def _parameter(parameter: Any, declared: Any) -> dict[str, Any]:
    """Describe an option or an argument; what it leaves at its usual value is left out, but for its default."""
    info = None if declared is None else declared.default
    limits = {side: getattr(info, side, None) for side in ("min", "max")}
    fields = {
        "kind": parameter.param_type_name,
        "type": None if declared is None else _type_name(declared.annotation),
        **limits,
        "default": _default(parameter.default),
        "required": parameter.required or None,
        "repeatable": parameter.multiple or (parameter.nargs != 1) or None,
        "metavar": parameter.metavar,
        "variable": parameter.envvar,
        "heading": getattr(parameter, "rich_help_panel", None),
        "hidden": parameter.hidden or None,
        "shows its default": None if parameter.show_default is True else parameter.show_default,
        "help": parameter.help,
    }
    return {name: value for name, value in fields.items() if value is not None or name == "default"}


def _type_name(annotation: Any) -> str:
    """Return the name of a type, the same in all versions of Python, without the ``None`` of what may be left out."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " | ".join(_type_name(part) for part in parts if part is not type(None))
    if origin is Literal:
        return " | ".join(map(str, parts))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " | ".join(str(member.value) for member in annotation)
    return f"{origin.__name__} of {', '.join(map(_type_name, parts))}" if origin else str(annotation.__name__)


def _default(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_default(part) for part in value]
    return value.__name__ if callable(value) else str(value)
