"""Options that ``openenv collect`` and ``openenv eval`` share: what is played, by whom and how."""

from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError

from openenv.core.exceptions import ConfigurationError
from openenv.train.play_settings import PlaySettings

Environment = Annotated[
    str, typer.Argument(metavar="ENV", help="Name, folder or file of an environment, PREFIX:ID, or a server's URL.")
]
PlayerKind = Annotated[
    Literal["scripted", "random"] | None,
    typer.Option(help="A player without a model: the one that the environment brings along, or a random one."),
]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server, as http://host:8000/v1.")]
Form = Annotated[Literal["tools", "text"], typer.Option(help="Actions are calls of tools, or texts.")]
SystemPrompt = Annotated[str | None, typer.Option(help="The first message of every conversation.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="Actions in an episode, at most.")]
Temperature = Annotated[float, typer.Option(min=0, help="Of the model's sampling.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Tokens in one answer of the model, at most.")]
StepTimeoutS = Annotated[
    float, typer.Option(min=0.001, help="Seconds for a reset or a step; then its episode is given up.")
]
Sessions = Annotated[int, typer.Option(min=1, help="Episodes that are played at once.")]


def play_settings(**fields: Any) -> PlaySettings:
    """Make the settings of the options.

    Raises:
        ConfigurationError: They do not go together.
    """
    try:
        return PlaySettings(**fields)
    except ValidationError as error:
        faults = "; ".join(str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors())
        raise ConfigurationError(f"{faults[:1].upper()}{faults[1:]}. See --player, --model and --base-url.") from error
