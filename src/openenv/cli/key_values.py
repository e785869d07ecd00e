"""Options of the form ``NAME=VALUE``."""

import os
import re
from collections.abc import Iterable
from typing import Any

import typer

from openenv.core.documents import DocumentError, parse_json
from openenv.core.exceptions import ConfigurationError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_variables(items: Iterable[str], option: str) -> dict[str, str]:
    """Read environment variables, or arguments of a Dockerfile, each ``NAME=VALUE``.

    Raises:
        BadParameter: An item is not of that form.
    """
    return dict(_read(item, option) for item in items)


def read_secrets(items: Iterable[str], option: str) -> dict[str, str]:
    """Read secrets, each ``NAME=VALUE`` or, so that no value is seen on the command line, the ``NAME`` of a variable.

    Raises:
        BadParameter: An item is not of that form, or there is no such variable.
    """
    return dict(_read(item if "=" in item else _from_environment(item, option), option) for item in items)


def read_reset(items: Iterable[str], option: str = "--reset") -> dict[str, Any]:
    """Read parameters of a reset, each ``NAME=VALUE``, where the value is JSON or else a text.

    Raises:
        ConfigurationError: An item is not of that form, or is the seed.
    """
    return dict(_read_parameter(item, option) for item in items)


def read_weights(items: Iterable[str], option: str) -> dict[str, float]:
    """Read weights, each ``NAME=WEIGHT``, where the name is that of a component of the reward.

    Raises:
        BadParameter: An item is not of that form.
    """
    return dict(_read_weight(item, option) for item in items)


def _read_weight(item: str, option: str) -> tuple[str, float]:
    name, _, weight = item.rpartition("=")
    try:
        if name:
            return name, float(weight)
    except ValueError:
        pass
    raise typer.BadParameter(f"{option} takes NAME=WEIGHT, as in progress=0.5; got {item!r}.")


def _read_parameter(text: str, option: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals or name == "seed":
        instead = "the seed is given with --seed" if name == "seed" else "expected NAME=VALUE, as in difficulty=hard"
        raise ConfigurationError(f"{option} {text!r}: {instead}.")
    try:
        return name, parse_json(value)
    except DocumentError:
        return name, value


def _read(item: str, option: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not _NAME.fullmatch(name):
        printed = name if equals else item
        raise typer.BadParameter(f"{option} takes NAME=VALUE, where NAME is of letters, digits and _; got {printed!r}.")
    return name, value


def _from_environment(name: str, option: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise typer.BadParameter(
            f"{option} takes NAME=VALUE, or the NAME of an environment variable; {name!r} is neither."
        )
    return f"{name}={value}"
