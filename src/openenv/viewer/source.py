"""Target of a path: the folder of a training run, of an evaluation or collected episodes, or a file of traces."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from openenv.core.env_server.history.stores.choice import is_address
from openenv.core.env_server.traces.store import database_at
from openenv.core.exceptions import ConfigurationError
from openenv.records.episodes import is_episode_folder
from openenv.records.run_folder import RunFolder, is_run

TRACES = "traces.db"
# Files and folders that a message names.
_MAX_NAMED = 5

View = Literal["run", "results", "traces"]


@dataclass(frozen=True)
class Source:
    """Run, evaluation, collection or file of traces to show.

    Attributes:
        name: Its name: the folder's, that of the file with its folder, or the address of a database without its
            password.
        traces: The file of its traces, or the address of a database; ``None`` for none.
        run: Folder of a training run; ``None`` for none.
        episodes: Folder of an evaluation or of collected episodes; ``None`` for none.
    """

    name: str
    traces: str | Path | None = None
    run: Path | None = None
    episodes: Path | None = None

    @classmethod
    def at(cls, location: str) -> Self:
        """Find the source at a path.

        Args:
            location: A file or a folder, or the address of a database.

        Raises:
            ConfigurationError: There is nothing to show, or there are several files of traces.
        """
        if is_address(location):
            return cls(name=database_at(location).name, traces=location)
        path = Path(location)
        if not path.exists():
            raise ConfigurationError(f"There is no file or folder {location}.")
        name = path.resolve().name
        traces = path / TRACES
        if is_run(path):
            # A run that has just begun has no traces yet.
            has_traces = traces.is_file() or RunFolder(path).state == "running"
            return cls(name, traces if has_traces else None, run=path)
        if is_episode_folder(path):
            # An incomplete source may have its first trace yet to come.
            has_traces = traces.is_file() or not (path / "results.json").is_file()
            return cls(name, traces if has_traces else None, episodes=path)
        found = find_traces(path)
        return cls(f"{path.resolve().parent.name}/{name}" if path.is_file() else name, found)

    @classmethod
    def all_at(cls, locations: Sequence[str]) -> list[Self]:
        """Find the sources at paths; names that occur twice begin with the name of the folder above.

        Args:
            locations: Files or folders, or addresses of databases.

        Raises:
            ConfigurationError: There is nothing to show at a path, or there are several files of traces.
        """
        sources = [cls.at(location) for location in locations]
        counts = Counter(source.name for source in sources)
        return [
            source._with_folder(location) if counts[source.name] > 1 else source
            for location, source in zip(locations, sources, strict=True)
        ]

    @property
    def view(self) -> View:
        """The view of the page that shows it first."""
        if self.run is not None:
            return "run"
        return "traces" if self.episodes is None else "results"

    def _with_folder(self, location: str) -> Self:
        """Return the source with a name that begins one folder further up."""
        if is_address(location):
            return self
        length = len(Path(self.name).parts) + 1
        return replace(self, name=str(Path(*Path(location).resolve().parts[-length:])))


def find_traces(location: str | Path) -> str | Path:
    """Return the file of traces: the path itself, or in a folder ``traces.db`` or the only ``.db`` below it.

    Args:
        location: A file or a folder, such as that of a run, or the address of a database.

    Raises:
        ConfigurationError: There is none, or there are several.
    """
    path = Path(location)
    if not path.is_dir():
        return location
    usual = path / TRACES
    found = [usual] if usual.is_file() else sorted(path.rglob("*.db"))
    if len(found) != 1:
        raise ConfigurationError(_nothing_in(path, found))
    return found[0]


def _nothing_in(folder: Path, files: list[Path]) -> str:
    expected = (
        f"Expected in {folder} a training run (config.yaml and starts.jsonl), an evaluation or collected episodes "
        "(settings.json or episodes.jsonl), or one file of traces (.db)"
    )
    below = sorted(each.parent for each in folder.glob("*/settings.json") if is_episode_folder(each.parent))
    below += sorted(each.parent for each in folder.glob("*/starts.jsonl") if is_run(each.parent))
    named = below or files
    names = ", ".join(str(each) for each in named[:_MAX_NAMED])
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    if below:
        return f"{expected}; but there are some below it: {names}{more}. Name the folder."
    return f"{expected}; found the files {names}{more}. Name the file." if files else f"{expected}; found none."
