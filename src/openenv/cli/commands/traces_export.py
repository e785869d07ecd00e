"""``openenv traces export``, ``import`` and ``rescore``: episodes for other programs, and scores of other rubrics."""

from pathlib import Path
from typing import Annotated, Any

import typer

from openenv.adapters.mcp_server.rewards import load_reward
from openenv.cli.trace_filters import (
    Ending,
    Evaluations,
    File,
    Limit,
    MaxReward,
    MinReward,
    OfEnvironment,
    OfLabel,
    OfModel,
    Since,
    Split,
    Text,
    Until,
    time_of,
)
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Filter
from openenv.traces.exporting import ExportFormat
from openenv.traces.exporting import export as export_episodes
from openenv.traces.importing import import_episodes
from openenv.traces.reading import TraceFile
from openenv.traces.reading import open as open_traces
from openenv.traces.rescoring import rescore as rescore_episodes

Output = Annotated[Path, typer.Argument(metavar="OUTPUT", help="New file; for atif a new folder.")]
To = Annotated[ExportFormat, typer.Option(help="Format of the output.")]
Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE", help="ATIF (.json, or a folder of them), a log of Inspect (.eval), or a .jsonl of export."
    ),
]
RubricName = Annotated[
    str, typer.Argument(metavar="RUBRIC", help="Rubric, its class, or a function, as module:name or file.py:name.")
]
ScoreName = Annotated[str | None, typer.Option("--name", help="Name of the scores.  [default: the rubric's]")]


def export(
    file: File,
    output: Output,
    to: To,
    env: OfEnvironment = None,
    split: Split = None,
    model: OfModel = None,
    evaluations: Evaluations = None,
    since: Since = None,
    until: Until = None,
    ending: Ending = None,
    min_reward: MinReward = None,
    max_reward: MaxReward = None,
    label: OfLabel = None,
    text: Text = None,
    limit: Limit = 0,
) -> None:
    """Write episodes into a new file of another format."""
    where = Filter(
        environment=env,
        split=split,
        model=model,
        label=label,
        min_reward=min_reward,
        max_reward=max_reward,
        since=time_of(since, "--since"),
        until=time_of(until, "--until"),
        ending=ending,
        text=text,
        evaluation=evaluations,
    )
    count = export_episodes(file, output, to, where, limit=limit or None)
    typer.echo(f"Exported {count} {'pairs' if to == 'preferences' else 'episodes'} to {output}.")


def import_(file: File, source: Source) -> None:
    """Add the episodes of another program's file.

    FILE is created if it does not exist.
    """
    with open_traces(file, create=True) as traces:
        added = import_episodes(traces, source)
    which = f": {added[0]} to {added[-1]}." if added else "."
    typer.echo(f"Imported {len(added)} episodes into {traces.name}{which}")


def rescore(
    file: File,
    rubric: RubricName,
    name: ScoreName = None,
    env: OfEnvironment = None,
    split: Split = None,
    since: Since = None,
    min_reward: MinReward = None,
    max_reward: MaxReward = None,
    limit: Limit = 0,
) -> None:
    """Score episodes by another rubric, without playing them.

    The environment's rewards stay.
    """
    where = Filter(
        environment=env,
        split=split,
        min_reward=min_reward,
        max_reward=max_reward,
        since=time_of(since, "--since"),
    )
    found: Any = load_reward(rubric)
    instance = found() if isinstance(found, type) else found
    with TraceFile(file) as traces:
        scores = rescore_episodes(traces, instance, name, where, limit or None)
        for episode, score in scores:
            reward = traces.episode(episode).reward
            before = "none" if reward is None else f"{reward:+.3f}"
            typer.echo(f"{episode:<12} reward {before}  {score.name} {score.text}")
    if not scores:
        raise ConfigurationError(f"Expected episodes in {traces.name} that pass the filter, found none.")
