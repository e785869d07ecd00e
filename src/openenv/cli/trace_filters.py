"""Options of the commands of traces: the file, and those that choose episodes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Flag, Order

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def traces_at(location: str) -> str:
    """Return the file of traces of a folder, such as that of a run; anything else as it is."""
    if not Path(location).is_dir():
        return location
    from openenv.viewer.source import find_traces  # the page's packages, which few commands need

    return str(find_traces(location))


EndingName = Literal[
    "done", "truncated", "reset", "closed", "disconnected", "away", "idle", "replaced", "revoked", "failed", "shutdown",
    "running", "interrupted", "imported",
]  # fmt: skip
"""Ends of an episode, or of its session."""

File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="File of traces, a folder with one, or postgresql://...", callback=traces_at),
]
Limit = Annotated[int, typer.Option(min=0, help="Number of episodes, from the first; 0 for all.")]
OfEnvironment = Annotated[str | None, typer.Option("--env", help="Name of the environment.")]
Split = Annotated[str | None, typer.Option(help="Split of the task.")]
Index = Annotated[str | None, typer.Option(help="Index of the task.")]
Seed = Annotated[str | None, typer.Option(help="Seed of the reset.")]
EpisodeId = Annotated[str | None, typer.Option(help="Id that the reset named.")]
Session = Annotated[str | None, typer.Option(help="Beginning of the session's name.")]
OfTransport = Annotated[str | None, typer.Option("--transport", help="Transport: v1, legacy, http, mcp, ors.")]
OfModel = Annotated[str | None, typer.Option("--model", help="Model or player.")]
OfToken = Annotated[str | None, typer.Option("--token-name", help="Name of its client's token, of --tokens.")]
OfLabel = Annotated[str | None, typer.Option("--label", help="What a person calls it: good, bad or another word.")]
OfVersion = Annotated[str | None, typer.Option("--version", help="Version of the environment.")]
OfRun = Annotated[int | None, typer.Option("--run", min=0, help="Run of the server: what ids begin with.")]
Component = Annotated[
    str | None, typer.Option(help="Component of the rewards: whose total the next two and --order are about.")
]
MinReward = Annotated[float | None, typer.Option(help="Lowest sum of rewards.")]
MaxReward = Annotated[float | None, typer.Option(help="Highest sum of rewards.")]
OfFlag = Annotated[Flag | None, typer.Option("--flag", help="What stands out about it.")]
InOrder = Annotated[
    Order, typer.Option("--order", help="Which come first; best and worst by reward, longest by steps.")
]
Since = Annotated[
    str | None, typer.Option(help="Earliest beginning: 2026-11-24, 2026-11-24T08:30, or 90m, 6h, 7d ago.")
]
Until = Annotated[str | None, typer.Option(help="Latest beginning, in the same forms.")]
Ending = Annotated[
    EndingName | None, typer.Option(metavar="ENDING", help=f"How it ended: {', '.join(get_args(EndingName))}.")
]
Text = Annotated[str | None, typer.Option(help="Text in a request, an answer, or the model's messages.")]
Evaluations = Annotated[
    bool | None, typer.Option("--evaluations/--no-evaluations", help="Only, or none, that a training evaluated by.")
]


def time_of(text: str | None, option: str) -> float | None:
    """Read a date, or a time ago, in seconds since 1970.

    Raises:
        ConfigurationError: It is no time.
    """
    if text is None:
        return None
    try:
        if text[-1:] in _UNITS and text[:-1].isdigit():
            return (datetime.now(UTC) - timedelta(seconds=int(text[:-1]) * _UNITS[text[-1]])).timestamp()
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise ConfigurationError(
            f"Expected {option} to be a time such as 2026-11-24, 2026-11-24T08:30, 90m, 6h or 7d, got {text!r}."
        ) from None
