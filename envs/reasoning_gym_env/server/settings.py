"""Settings of a server, for resets that name no dataset, from its variables."""

from typing import Any, ClassVar, Literal

from pydantic import Field, Json

from openenv.core.variables import VariableSettings


class Settings(VariableSettings):
    """The server's settings.

    Attributes:
        dataset: The dataset of a reset that names none.
        config: Its parameters where a reset names none; an object of JSON in the variable.
        sandbox: ``none`` where this machine is itself a sandbox, which datasets need that run answers as Python.
    """

    PREFIX: ClassVar[str] = "REASONING_GYM_"

    dataset: str = "chain_sum"
    config: Json[dict[str, Any]] = Field(default_factory=dict)
    sandbox: Literal["none"] | None = None
