"""What a file of traces holds."""

from pathlib import Path

from openenv import traces
from openenv.traces import Entry, Episode, Filter


def recorded(file: str | Path, where: Filter | None = None) -> list[tuple[Episode, list[Entry]]]:
    """The episodes of a file, newest first, with their entries."""
    with traces.open(file) as opened:
        return [(episode, list(opened.entries(episode.id))) for episode in opened.episodes(where)]
