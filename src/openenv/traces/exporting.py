"""Export of episodes into files of other programs, one episode after another."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, get_args

from openenv.core.documents import draft_of
from openenv.core.exceptions import ConfigurationError
from openenv.traces.by_task import preference_pairs
from openenv.traces.episodes import BAD, GOOD, EpisodeRecord, Filter
from openenv.traces.formats.atif import trajectory_of
from openenv.traces.formats.dataset import dataset
from openenv.traces.formats.inspect_log import InspectLogWriter
from openenv.traces.formats.messages import row_of
from openenv.traces.reading import TraceFile

__all__ = ["EXPORT_FORMATS", "ExportFormat", "export"]

ExportFormat = Literal["messages", "parquet", "atif", "inspect", "jsonl", "preferences"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
"""Names of the formats."""


def export(
    path: str | Path, output: str | Path, to: ExportFormat, where: Filter | None = None, *, limit: int | None = None
) -> int:
    """Write episodes into a new file. The output appears when it is complete.

    Args:
        path: File of traces.
        output: The new file; for ``atif`` a new folder, with a file for each episode.
        to: ``messages``: a row for each episode, as JSON lines, for TRL. ``parquet``: the same rows. ``atif``: Harbor's
            trajectories. ``inspect``: a log of Inspect's. ``jsonl``: all that is on record, as JSON lines.
            ``preferences``: `preference_pairs`, as JSON lines, for TRL's ``DPOTrainer``.
        where: Filter; by default all episodes, for ``messages``, ``parquet`` and ``preferences`` all but
            evaluations (`Episode.is_evaluation`).
        limit: Maximum number of episodes, the newest, or of pairs.

    Returns:
        The number of episodes, or of pairs. Those whose entries are not all on record are left out.

    Raises:
        ConfigurationError: The output exists, its folder can't be written, no episode passes the filter, or the file of
            traces can't be read.

    Example::

        traces.export("traces.db", "good.parquet", "parquet", Filter(min_reward=0.9))
    """
    if to not in EXPORT_FORMATS:
        raise ConfigurationError(f"Expected one of the formats {', '.join(EXPORT_FORMATS)}, got {to!r}.")
    output = Path(output)
    with TraceFile(path) as traces, new_output(output) as draft:
        if to == "parquet":
            return _write_parquet(path, where, limit, draft)
        if to == "preferences":
            return _write_pairs(traces, where, limit, draft)
        wanted = (where or Filter()).for_training() if to == "messages" else where
        counted = _Counted(traces.records(wanted, limit))
        _WRITERS[to](counted, draft)
        if not counted.count:
            raise ConfigurationError(f"Expected episodes in {traces.name} that pass the filter, found none.")
        return counted.count


@contextmanager
def new_output(output: Path) -> Iterator[Path]:
    """Yield a path to write to, which becomes the output at the end, and is removed if something fails.

    Raises:
        ConfigurationError: The output exists, or its folder can't be written.
    """
    if output.exists() or output.is_symlink():
        raise ConfigurationError(
            f"Expected a path for a new file, but {output} exists. Give another path, or remove it."
        )
    try:
        with draft_of(output, replaces=False) as draft:
            yield draft
    except OSError as error:
        raise ConfigurationError(f"{output} can't be written: {error}.") from error


def _write_parquet(path: str | Path, where: Filter | None, limit: int | None, draft: Path) -> int:
    made = dataset(path, where, limit, cache_dir=draft.parent / "cache")
    made.to_parquet(str(draft))
    return len(made)


def _write_pairs(traces: TraceFile, where: Filter | None, limit: int | None, draft: Path) -> int:
    pairs = list(islice(preference_pairs(traces, where), limit))
    if not pairs:
        raise ConfigurationError(
            f"Expected two episodes of a task in {traces.name} that pass the filter and begin alike, one labelled "
            f"{GOOD} or with more reward, and one labelled {BAD} or with less; found none."
        )
    _write_lines(pairs, draft)
    return len(pairs)


def _write_lines(lines: Iterable[Any], draft: Path) -> None:
    # Half of a surrogate pair, which a model may write, is no UTF-8; its escape is equal JSON.
    with draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for line in lines:
            _dump(line, file)


def _write_rows(records: Iterable[EpisodeRecord], draft: Path) -> None:
    _write_lines(map(row_of, records), draft)


def _write_records(records: Iterable[EpisodeRecord], draft: Path) -> None:
    _write_lines(map(asdict, records), draft)


def _write_trajectories(records: Iterable[EpisodeRecord], draft: Path) -> None:
    draft.mkdir()
    for record in records:
        _write_lines([trajectory_of(record)], draft / f"{record.episode.id}.json")


def _write_log(records: Iterable[EpisodeRecord], draft: Path) -> None:
    with draft.open("wb") as file, InspectLogWriter(file) as log:
        for record in records:
            log.add(record)


class _Counted:
    """Iterator over episodes, once, which counts them."""

    def __init__(self, records: Iterable[EpisodeRecord]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[EpisodeRecord]:
        for record in self._records:
            self.count += 1
            yield record


def _dump(document: Any, file: IO[str]) -> None:
    file.write(json.dumps(document, ensure_ascii=False) + "\n")


_WRITERS: dict[str, Callable[[Iterable[EpisodeRecord], Path], None]] = {
    "messages": _write_rows,
    "jsonl": _write_records,
    "atif": _write_trajectories,
    "inspect": _write_log,
}
