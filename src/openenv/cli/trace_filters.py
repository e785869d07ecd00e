"""Options of the commands of traces: the file, and those that choose episodes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from openenv.cli.setting_options import SettingOption
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Filter, Flag, Order

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
Limit = Annotated[int, typer.Option(min=0, help="Episodes at most, the first ones; 0 for all.")]
InOrder = Annotated[Order, typer.Option("--order", help="Order; best and worst are by reward, longest by steps.")]

_PLAYED, _HAPPENED = "Filters by task and player", "Filters by time, rewards and content"


def _filter(heading: str, field: str, flag: str, description: str, hint: Any = str, **declared: Any) -> SettingOption:
    """Declare the option of a field of ``Filter``."""
    option = typer.Option(flag, help=description, rich_help_panel=heading, **declared)
    return SettingOption(field, flag, hint, option, _as_given)


def _as_given(value: Any) -> Any:
    return value


_FILTERS = {
    each.field: each
    for each in (
        _filter(_PLAYED, "environment", "--env", "Name of the environment."),
        _filter(_PLAYED, "version", "--version", "Version of the environment."),
        _filter(_PLAYED, "split", "--split", "Split of the task."),
        _filter(_PLAYED, "index", "--index", "Index of the task."),
        _filter(_PLAYED, "seed", "--seed", "Seed of the reset."),
        _filter(_PLAYED, "episode_id", "--episode-id", "Id that the reset named."),
        _filter(_PLAYED, "model", "--model", "Model or player."),
        _filter(
            _PLAYED,
            "evaluation",
            "--evaluations/--no-evaluations",
            "Only episodes of a training's evaluations, or none of them.",
            bool,
        ),
        _filter(_PLAYED, "transport", "--transport", "Transport: v1, legacy, http, mcp, ors."),
        _filter(_PLAYED, "token_name", "--token-name", "Name of the client's token, of --tokens."),
        _filter(_PLAYED, "session", "--session", "Beginning of the session's name."),
        _filter(_PLAYED, "run", "--run", "Run of the server, with which ids begin.", int, min=0),
        _filter(
            _HAPPENED,
            "since",
            "--since",
            "Earliest beginning: 2026-11-24, 2026-11-24T08:30, or 90m, 6h, 7d ago.",
            metavar="TIME",
        ),
        _filter(_HAPPENED, "until", "--until", "Latest beginning, in the same forms.", metavar="TIME"),
        _filter(
            _HAPPENED, "ending", "--ending", f"End: {', '.join(get_args(EndingName))}.", EndingName, metavar="ENDING"
        ),
        _filter(_HAPPENED, "min_reward", "--min-reward", "Lowest sum of rewards.", float),
        _filter(_HAPPENED, "max_reward", "--max-reward", "Highest sum of rewards.", float),
        _filter(
            _HAPPENED,
            "component",
            "--component",
            "Component of the rewards, for --min-reward, --max-reward and --order instead of their sum.",
        ),
        _filter(_HAPPENED, "flag", "--flag", "Flag of the episode.", Flag),
        _filter(_HAPPENED, "label", "--label", "Label of a person: good, bad or another word."),
        _filter(_HAPPENED, "text", "--text", "Text in a request, an answer, or the model's messages."),
    )
}


def filters(*fields: str) -> list[SettingOption]:
    """Return the options for fields of ``Filter``; for all of them by default."""
    return [_FILTERS[field] for field in fields or _FILTERS]


def filter_of(values: Mapping[str, Any]) -> Filter:
    """Return the filter of the options that were given, by the names of its fields.

    Raises:
        ConfigurationError: A time is none.
    """
    times = {name: time_of(values[name], f"--{name}") for name in ("since", "until") if name in values}
    return Filter(**{**values, **times})


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
