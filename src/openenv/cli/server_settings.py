"""Options of a command for the settings of a server, derived from ``ServerConfig``."""

import inspect
from collections.abc import Callable
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from openenv.core.env_server.settings import SETTINGS, ServerConfig, Setting


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add to a command an option for each setting that has one.

    Args:
        command: The command. Its first parameter, ``settings``, gets the settings that the user gave, by the names of
            their fields; it is no option itself.
    """
    settings = [setting for setting in SETTINGS.values() if setting.option is not None]
    own = [parameter for name, parameter in inspect.signature(command).parameters.items() if name != "settings"]
    options = [
        Parameter(setting.name, Parameter.POSITIONAL_OR_KEYWORD, default=_absent(setting), annotation=_option(setting))
        for setting in settings
    ]

    @wraps(command)
    def run(**arguments: Any) -> None:
        values = {setting.name: arguments.pop(setting.name) for setting in settings}
        given = {setting.name: values[setting.name] for setting in settings if _is_given(values[setting.name])}
        command(given, **arguments)

    run.__signature__ = inspect.Signature([*options, *own])  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*options, *own)}
    return run


def _option(setting: Setting) -> Any:
    """Annotate the option of a setting, as typer reads it."""
    hint: Any = get_type_hints(ServerConfig)[setting.name]
    if get_origin(hint) is tuple:
        hint = list[get_args(hint)[0]]  # type: ignore[misc]  # a type that is made here
    shows_default = setting.default is not None and not isinstance(setting.default, bool | tuple)
    default = f"  [default: {setting.default_text}]" if shows_default else ""
    return Annotated[
        hint if hint is bool else hint | None,
        typer.Option(
            setting.option,
            metavar=setting.metavar,
            help=setting.help + default,
            show_default=False,
            rich_help_panel=setting.group,
        ),
    ]


def _absent(setting: Setting) -> bool | None:
    """Return what typer passes where the option is not given."""
    return False if isinstance(setting.default, bool) else None


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value != []
