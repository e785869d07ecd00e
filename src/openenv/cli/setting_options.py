"""Options of a command, derived from the fields of a class of settings."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial, wraps
from inspect import Parameter
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from docstring_parser import google
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.fields import FieldInfo

from openenv.cli.key_values import read_reset, read_variables, read_weights
from openenv.core.env_server.settings import SETTINGS, ServerConfig, Setting
from openenv.core.exceptions import ConfigurationError
from openenv.core.variables import Option

# Readers of mappings, whose items are given one by one, by the types of the values.
_READERS: Mapping[Any, Callable[[list[str], str], dict[str, Any]]] = {
    Any: read_reset,
    float: read_weights,
    str: read_variables,
}
_REPEATED = (list, tuple, dict, Mapping)


@dataclass(frozen=True)
class SettingOption:
    """Option of a command for one field of settings.

    Attributes:
        field: Name of the field.
        name: Name of the option, as messages have it.
        hint: Type of the field, without ``None``.
        declared: Names, help, placeholder and heading, as typer reads them.
        check: Returns a value of the field as the settings keep it, or raises ``ConfigurationError``.
        is_required: Whether the command needs it.
        section: Name of the field whose own settings the field is one of; empty for none.
    """

    field: str
    name: str
    hint: Any
    declared: Any
    check: Callable[[Any], Any]
    is_required: bool = False
    section: str = ""

    @property
    def parameter_name(self) -> str:
        """Name of the command's parameter."""
        return f"{self.section}_{self.field}" if self.section else self.field

    def parameter(self) -> Parameter:
        """Return the option as a parameter of a function, as typer reads it."""
        hint, default = (self._typed, Parameter.empty) if self.is_required else (self._typed | None, None)
        return Parameter(
            self.parameter_name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, self.declared]
        )

    def value_of(self, typed: Any) -> Any:
        """Return the field's value for what was typed.

        Raises:
            BadParameter: The value is out of bounds.
            ConfigurationError: An item of a mapping is not of its form.
        """
        if get_origin(self.hint) in (dict, Mapping):
            typed = _READERS[get_args(self.hint)[1]](typed, self.name)
        try:
            return self.check(typed)
        except ConfigurationError as error:
            raise typer.BadParameter(str(error), param_hint=f"'{self.name}'") from None

    @property
    def _typed(self) -> Any:
        """Type that typer reads: items of lists and mappings are given one by one."""
        return list[str] if get_origin(self.hint) in _REPEATED else self.hint


def with_settings(options: Iterable[SettingOption]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options for settings to a command, before those of its signature.

    Args:
        options: The options. The command's first parameter, ``settings``, gets the values that the user gave, by the
            names of the fields, those of a section in a mapping by its name; it is no option itself.
    """
    derived = list(options)

    def add(command: Callable[..., None]) -> Callable[..., None]:
        other = [each for name, each in inspect.signature(command).parameters.items() if name != "settings"]
        parameters = [each.parameter() for each in derived]
        parameters += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in other]  # some have no default

        @wraps(command)
        def run(**arguments: Any) -> None:
            typed = {each: arguments.pop(each.parameter_name, None) for each in derived}
            given: dict[str, Any] = {}
            for each, value in typed.items():
                if value not in (None, []):
                    target = given.setdefault(each.section, {}) if each.section else given
                    target[each.field] = each.value_of(value)
            command(given, **arguments)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return add


def server_options() -> list[SettingOption]:
    """Return an option for each setting of a server that has one."""
    hints = get_type_hints(ServerConfig)
    return [
        SettingOption(
            setting.name,
            setting.option,
            _without_none(hints[setting.name]),
            typer.Option(
                setting.option,
                metavar=setting.metavar,
                help=_with_default(setting.help, _default_of(setting)),
                show_default=False,
                rich_help_panel=setting.group,
            ),
            partial(setting.kind.check, setting.name),
        )
        for setting in SETTINGS.values()
        if setting.option is not None
    ]


def options_of(settings: type, descriptions: Mapping[str, str] | None = None) -> list[SettingOption]:
    """Return an option for each field of settings that has an ``Option`` in its ``Annotated`` type.

    A field with settings of its own has a flag, as ``--lora``, beside the options of these, as ``--lora-rank``, unless
    one of these has the flag's name.

    Args:
        settings: A model of pydantic; or a frozen dataclass, whose docstring describes the fields.
        descriptions: Descriptions that are others for this command, by the names of fields.
    """
    texts = {**_docstring_fields(settings), **(descriptions or {})}
    return [
        made
        for name, field in fields_of(settings).items()
        for option in field.metadata
        if isinstance(option, Option)
        for made in _options(name, field, option, texts.get(name) or field.description or "")
    ]


def fields_of(settings: Any) -> Mapping[str, FieldInfo]:
    """Return the fields of a model of pydantic, or of a frozen dataclass."""
    fields: Mapping[str, FieldInfo]
    if issubclass(settings, BaseModel):
        fields = settings.model_fields
    else:
        fields = pydantic_dataclass(settings, frozen=True).__pydantic_fields__
    return fields


def described(field: FieldInfo, description: str) -> tuple[str, str]:
    """Split the description of a field into its first part, and its default in words.

    Example:
        >>> described(FieldInfo(default=3), "Attempts at each task.")
        ('Attempts at each task', '3')
        >>> described(FieldInfo(default=None), "episodes in one backward pass; default: all")
        ('episodes in one backward pass', 'all')
        >>> described(FieldInfo(default=True), "record the episodes")
        ('record the episodes', 'on')
    """
    text, _, default = " ".join(description.split()).removesuffix(".").partition("; default: ")
    if default or field.is_required() or field.default_factory is not None:
        return text, default
    return text, "" if field.default is None or field.default == () else _default_text(field.default)


def _options(name: str, field: FieldInfo, option: Option, description: str) -> Iterator[SettingOption]:
    section = _without_none(field.annotation)
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        yield _option(name, field, option, description)
        return
    text = f"{description[:1].upper()}{description[1:]}."
    flag = typer.Option(f"--{name}", help=text, show_default=False, rich_help_panel=option.heading)
    own = options_of(section)
    if f"--{name}" not in [each.name for each in own]:
        yield SettingOption(name, f"--{name}", bool, flag, lambda _: {})
    for each in own:
        yield replace(each, section=name)


def _option(name: str, field: FieldInfo, option: Option, description: str) -> SettingOption:
    text, default = described(field, description)
    hint, dashed = _without_none(field.annotation), name.replace("_", "-")
    if hint is bool:  # the help names the flag, as typer does
        default = dashed if field.default else ""
    names = option.names or (f"--{dashed}",)
    flags = (f"{names[0]}/--no-{dashed}",) if hint is bool and field.default is True else names
    again = "; may be given again" if get_origin(hint) in _REPEATED else ""
    declared = typer.Option(
        *flags,
        metavar=option.metavar,
        help=_with_default(f"{text[:1].upper()}{text[1:]}{again}.", default),
        show_default=False,
        rich_help_panel=option.heading,
    )
    return SettingOption(name, names[0], hint, declared, partial(_check, field), field.is_required() and not default)


def _check(field: FieldInfo, value: Any) -> Any:
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, *field.metadata])  # type: ignore[arg-type]
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        if fault["type"] == "value_error":  # the sentence is ours
            raise ConfigurationError(fault["msg"].removeprefix("Value error, ")) from error
        raise ConfigurationError(
            f"{fault['msg'].replace('Input should be', 'expected a value')}; got {value}."
        ) from error


def _docstring_fields(settings: type) -> dict[str, str]:
    return {each.arg_name: each.description or "" for each in google.parse(settings.__doc__ or "").params}


def _default_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value.value if isinstance(value, Enum) else value)


def _default_of(setting: Setting) -> str:
    """Return the default of a server's setting in words; an empty text for one that is off."""
    if setting.default is None:
        return "no limit" if setting.kind.optional else ""
    return "" if isinstance(setting.default, bool | tuple) else setting.default_text


def _with_default(text: str, default: str) -> str:
    return f"{text}  [default: {default}]" if default else text


def _without_none(hint: Any) -> Any:
    if NoneType not in get_args(hint):
        return hint
    parts = [part for part in get_args(hint) if part is not NoneType]
    return parts[0] if len(parts) == 1 else str  # what is a number or a name is read by the settings
