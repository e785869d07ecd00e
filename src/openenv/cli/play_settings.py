"""Settings of ``openenv collect`` and ``openenv eval``, from their options."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from openenv.cli.groups import RefusalError
from openenv.cli.setting_options import SettingOption, options_of
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.train.settings.play_settings import PlaySettings

_ENDPOINT = "address of the model's OpenAI-compatible server; /v1 is added to one without a path"


def play_options(descriptions: Mapping[str, str]) -> list[SettingOption]:
    """Return the options of a command that plays episodes."""
    return options_of(PlaySettings, {"llm_endpoint": _ENDPOINT, **descriptions})


def play_settings(**fields: Any) -> PlaySettings:
    """Make the settings of the options. Without a player and a model, the environment's own player plays.

    Raises:
        ConfigurationError: They do not go together.
        RefusalError: The environment or its server's address can't be one.
    """
    if fields.get("player") is None and fields.get("model") is None:
        fields["player"] = "scripted"
    try:
        return PlaySettings(**fields)
    except ValidationError as error:
        for fault in error.errors():
            if isinstance(cause := fault.get("ctx", {}).get("error"), EnvironmentNotFoundError):
                raise RefusalError(str(cause)) from error
        faults = "; ".join(str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors())
        options = "--player, --model, --base-url and --llm-endpoint"
        raise ConfigurationError(f"{faults[:1].upper()}{faults[1:]}. See {options}.") from error
