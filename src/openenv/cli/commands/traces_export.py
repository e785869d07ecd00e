"""``openenv traces export``, ``import`` and ``rescore``: episodes for other programs, and scores of other rubrics."""

from pathlib import Path
from typing import Annotated, Any

import typer

from openenv.adapters.mcp_server.rewards import load_reward
from openenv.cli.setting_options import with_settings
from openenv.cli.trace_filters import File, Limit, filter_of, filters
from openenv.core.exceptions import ConfigurationError
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


@with_settings(
    filters(
        *("environment", "split", "model", "evaluation", "since", "until", "ending", "min_reward", "max_reward"),
        *("label", "text"),
    )
)
def export(settings: dict[str, Any], file: File, output: Output, to: To, limit: Limit = 0) -> None:
    """Write episodes into a new file of another format."""
    count = export_episodes(file, output, to, filter_of(settings), limit=limit or None)
    typer.echo(f"Exported {count} {'pairs' if to == 'preferences' else 'episodes'} to {output}.")


def import_(file: File, source: Source) -> None:
    """Add the episodes of another program's file.

    FILE is created if it does not exist.
    """
    with open_traces(file, create=True) as traces:
        added = import_episodes(traces, source)
    which = f": {added[0]} to {added[-1]}." if added else "."
    typer.echo(f"Imported {len(added)} episodes into {traces.name}{which}")


@with_settings(filters("environment", "split", "since", "min_reward", "max_reward"))
def rescore(settings: dict[str, Any], file: File, rubric: RubricName, name: ScoreName = None, limit: Limit = 0) -> None:
    """Score episodes by another rubric, without playing them.

    The environment's rewards stay.
    """
    found: Any = load_reward(rubric)
    instance = found() if isinstance(found, type) else found
    with TraceFile(file) as traces:
        scores = rescore_episodes(traces, instance, name, filter_of(settings), limit or None)
        for episode, score in scores:
            reward = traces.episode(episode).reward
            before = "none" if reward is None else f"{reward:+.3f}"
            typer.echo(f"{episode:<12} reward {before}  {score.name} {score.text}")
    if not scores:
        raise ConfigurationError(f"Expected episodes in {traces.name} that pass the filter, found none.")
