"""Options of the commands of traces: the file, and those that choose episodes."""

from datetime import UTC, datetime, timedelta
from functools import partial
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
played_option, happened_option = (
    partial(typer.Option, rich_help_panel=heading)
    for heading in ("Filters by task and player", "Filters by time, rewards and content")
)

Limit = Annotated[int, typer.Option(min=0, help="Episodes at most, the first ones; 0 for all.")]
InOrder = Annotated[Order, typer.Option("--order", help="Order; best and worst are by reward, longest by steps.")]
OfEnvironment = Annotated[str | None, played_option("--env", help="Name of the environment.")]
OfVersion = Annotated[str | None, played_option("--version", help="Version of the environment.")]
Split = Annotated[str | None, played_option(help="Split of the task.")]
Index = Annotated[str | None, played_option(help="Index of the task.")]
Seed = Annotated[str | None, played_option(help="Seed of the reset.")]
EpisodeId = Annotated[str | None, played_option(help="Id that the reset named.")]
OfModel = Annotated[str | None, played_option("--model", help="Model or player.")]
Evaluations = Annotated[
    bool | None,
    played_option("--evaluations/--no-evaluations", help="Only episodes of a training's evaluations, or none of them."),
]
OfTransport = Annotated[str | None, played_option("--transport", help="Transport: v1, legacy, http, mcp, ors.")]
OfToken = Annotated[str | None, played_option("--token-name", help="Name of the client's token, of --tokens.")]
Session = Annotated[str | None, played_option(help="Beginning of the session's name.")]
OfRun = Annotated[int | None, played_option("--run", min=0, help="Run of the server, with which ids begin.")]
Since = Annotated[
    str | None, happened_option(help="Earliest beginning: 2026-11-24, 2026-11-24T08:30, or 90m, 6h, 7d ago.")
]
Until = Annotated[str | None, happened_option(help="Latest beginning, in the same forms.")]
Ending = Annotated[
    EndingName | None, happened_option(metavar="ENDING", help=f"End: {', '.join(get_args(EndingName))}.")
]
MinReward = Annotated[float | None, happened_option(help="Lowest sum of rewards.")]
MaxReward = Annotated[float | None, happened_option(help="Highest sum of rewards.")]
Component = Annotated[
    str | None,
    happened_option(help="Component of the rewards, for --min-reward, --max-reward and --order instead of their sum."),
]
OfFlag = Annotated[Flag | None, happened_option("--flag", help="Flag of the episode.")]
OfLabel = Annotated[str | None, happened_option("--label", help="Label of a person: good, bad or another word.")]
Text = Annotated[str | None, happened_option(help="Text in a request, an answer, or the model's messages.")]


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
