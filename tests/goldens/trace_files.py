"""Episodes of stored files, as ``openenv.traces`` reads them: of each version of its own, and of other programs."""

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.support.trace_files import file_of_dump

from openenv import traces

# Dumps of files of SQLite: version 1 is older; version 2 was written by commit 73dca50, version 3 by f4f48a9. Both have
# episodes that a server recorded, a fork and a failure among them, and episodes that were added with a picture, a
# conversation and a score.
VERSIONS = Path(__file__).parents[1] / "traces"
# Episodes of version 3, exported by commit f4f48a9: as lines, as a trajectory of ATIF, as the parts of Inspect's log.
IMPORTS = Path(__file__).parent / "imports"


def episodes_of_files(folder: Path) -> dict[str, Any]:
    """Return the episodes of each stored file, newest first, with all that is on record of them."""
    read = {dump.stem: _records(file_of_dump(dump, folder / f"{dump.stem}.db")) for dump in _dumps()}
    log = folder / "inspect_log.eval"
    with zipfile.ZipFile(log, "w") as parts:
        for name, content in json.loads((IMPORTS / "inspect_log.json").read_text()).items():
            parts.writestr(name, json.dumps(content))
    for source in (IMPORTS / "episodes.jsonl", IMPORTS / "trajectory.json", log):
        path = folder / f"{source.stem}.db"
        with traces.open(path, create=True) as file:
            traces.import_episodes(file, source)
        read[source.name] = _records(path)
    return read


def _dumps() -> list[Path]:
    return sorted(VERSIONS.glob("version_*.sql"))


def _records(path: Path) -> list[dict[str, Any]]:
    with traces.open(path) as file:
        return [asdict(file.record(episode.id)) for episode in file.episodes()]
