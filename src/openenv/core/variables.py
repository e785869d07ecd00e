"""Settings of a program: read from environment variables, and given as options of commands."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from openenv.core.exceptions import ConfigurationError

# Variables with the key of a vendor's API, and of any other model's server.
_KEY_VARIABLES = {
    "api.openai.com": ("OPENAI_API_KEY", "API_KEY"),
    "api.anthropic.com": ("ANTHROPIC_API_KEY", "API_KEY"),
}
_KEY_OF_ANY_SERVER = ("OPENAI_API_KEY",)


def model_api_key(address: str) -> str | None:
    """Return the key that a variable holds for the address of a model's server; ``None`` without one."""
    names = _KEY_VARIABLES.get(urlsplit(address).hostname or "", _KEY_OF_ANY_SERVER)
    return next(filter(None, map(os.environ.get, names)), None)


@dataclass(frozen=True)
class Option:
    """Option of a command for a field of settings, in the field's ``Annotated`` type.

    The field's description is the option's help. It may end with the default in words, as ``...; default: WORDS``.

    Attributes:
        names: Names of the option; without any, the field's name with dashes.
        metavar: Placeholder of its value in the help, where its type is not enough.
        heading: Heading in the help.
    """

    names: tuple[str, ...] = ()
    metavar: str | None = None
    heading: str | None = None


class VariableSettings(BaseModel):
    """Base of a class of settings whose fields are environment variables.

    A subclass declares its fields with their types, bounds and defaults. The field ``timeout_s`` of a class with the
    prefix ``MY_`` is the variable ``MY_TIMEOUT_S``. Flags are written ``1`` or ``0``.

    Attributes:
        PREFIX: What the names of the variables begin with.

    Example:
        >>> from pydantic import Field
        >>> class Settings(VariableSettings):
        ...     PREFIX = "MY_"
        ...     size: int = Field(3, ge=1)
        >>> Settings.from_variables({"MY_SIZE": "5"}).size
        5
        >>> Settings.from_variables({"MY_SIZE": "0"})
        Traceback (most recent call last):
            ...
        openenv.core.exceptions.base.ConfigurationError: MY_SIZE is '0'; expected greater than or equal to 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    PREFIX: ClassVar[str]

    @classmethod
    def from_variables(cls, variables: Mapping[str, str] | None = None) -> Self:
        """Read the settings; a variable that is not set, or empty, leaves the default.

        Args:
            variables: The variables; by default those of the process.

        Raises:
            ConfigurationError: A variable has a value that is not allowed; the message names both.
        """
        given = cls.fields_of(os.environ if variables is None else variables)
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = str(first["loc"][0])
            reason = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected").rstrip(".")
            raise ConfigurationError(f"{cls.variable(field)} is {given[field]!r:.100}; {reason}.") from error

    @classmethod
    def fields_of(cls, variables: Mapping[str, str]) -> dict[str, object]:
        """Return the values of the fields that variables set; a subclass may read further variables here.

        Args:
            variables: The variables.
        """
        texts = {name: variables.get(cls.variable(name), "") for name in cls.model_fields}
        return {name: text for name, text in texts.items() if text}

    @classmethod
    def variable(cls, field: str) -> str:
        """Return the name of a field's variable.

        Args:
            field: Name of the field.
        """
        return f"{cls.PREFIX}{field.upper()}"
