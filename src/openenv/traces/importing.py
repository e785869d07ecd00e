"""Import of episodes from files of other programs."""

from collections.abc import Iterator
from pathlib import Path

from openenv.core.documents import parse_json, read_json, read_lines
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import EpisodeRecord
from openenv.traces.formats.atif import record_of
from openenv.traces.formats.inspect_log import read_log
from openenv.traces.reading import TraceFile

__all__ = ["import_episodes"]


def import_episodes(traces: TraceFile, source: str | Path) -> list[str]:
    """Add the episodes of another program's file to a file of traces.

    Args:
        traces: The file of traces.
        source: A trajectory of ATIF (``.json``), a folder of them, a log of Inspect's (``.eval``), or an export as
            ``jsonl``.

    Returns:
        The ids of the episodes.

    Raises:
        ConfigurationError: The source does not exist, or is none of these. The episodes before the mistake are added.

    Example::

        with traces.open("traces.db", create=True) as file:
            traces.import_episodes(file, "logs/2026-11-24_security-guide.eval")
    """
    source = Path(source)
    if not source.exists():
        raise ConfigurationError(f"Expected a file or a folder to import at {source}, found none.")
    added = []
    for record in records_in(source):
        name = traces.add(record.episode, record.entries, record.conversations)
        for score in record.scores:
            traces.add_score(name, score)
        added.append(name)
    return added


def records_in(source: Path) -> Iterator[EpisodeRecord]:
    """Iterate over the episodes of another program's file, of a format of ``import_episodes``."""
    if source.is_dir():
        files = sorted(source.glob("*.json"))
        if not files:
            raise ConfigurationError(f"Expected trajectories of ATIF, as *.json, in {source}, found none.")
        for file in files:
            yield from _trajectory_in(file)
    elif source.suffix == ".eval":
        yield from read_log(source)
    elif source.suffix == ".jsonl":
        yield from _lines_of(source)
    else:
        yield from _trajectory_in(source)


def _trajectory_in(file: Path) -> Iterator[EpisodeRecord]:
    try:
        yield record_of(read_json(file))
    except ConfigurationError as error:
        raise ConfigurationError(f"Expected a trajectory of ATIF in {file}. {error}") from error


def _lines_of(file: Path) -> Iterator[EpisodeRecord]:
    for number, line in enumerate(read_lines(file), 1):
        try:
            yield EpisodeRecord.of_fields(parse_json(line))
        except ValueError as error:
            raise ConfigurationError(
                f"Expected line {number} of {file} to be an episode that was exported as jsonl, but {error}."
            ) from error
