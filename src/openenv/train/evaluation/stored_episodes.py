"""Episodes that the folder of an evaluation has: reused, or played again where the environment or the model changed."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from openenv.auto.files import EnvironmentFile
from openenv.auto.package import EnvironmentPackage
from openenv.core.documents import read_json, write_json
from openenv.hub.ignoring import ALWAYS, is_ignored
from openenv.records.collection import Collection
from openenv.records.run_folder import RunFolder
from openenv.train.settings.play_settings import PlaySettings

__all__ = ["played_versions", "reuse_stored"]

_VERSIONS = "versions.json"
# Files that no episode depends on: those that are no part of an environment, tests and descriptions.
_NOT_PLAYED = (*ALWAYS, "tests", "*.md")
# Bytes of the beginning and of the end of a larger file that its checksum is of; weights have gigabytes.
_PART_BYTES = 1024 * 1024
_CHECKSUM_LENGTH = 12


def played_versions(settings: PlaySettings, package: EnvironmentPackage | None) -> dict[str, str | None]:
    """Return the versions of the environment and the model, each with a checksum; ``None`` where it is not known.

    That of a server and of a model behind an address is not known.
    """
    environment = None
    if package is not None and settings.starts_server:
        files = [package.file] if isinstance(package, EnvironmentFile) else _files_of(package.folder)
        environment = f"{package.version} ({_checksum(files)})"
    model = None
    if settings.model is not None and settings.llm_endpoint is None and Path(settings.model).is_dir():
        run, path = RunFolder.of_model(Path(settings.model)), Path(settings.model)
        weights, name = run.weights_of(path) if run.config.is_file() else (path, path.name)
        model = f"{name} ({_checksum(_files_of(weights))})"
    return {"environment": environment, "model": model}


def reuse_stored(collection: Collection, versions: Mapping[str, str | None]) -> str | None:
    """Keep the episodes of a folder, or move them to ``earlier/`` where they were played with other versions.

    Returns:
        A sentence with the number of episodes and the reason; ``None`` where there are no episodes.
    """
    file = collection.path / _VERSIONS
    before = read_json(file) if file.is_file() else {}
    write_json(file, dict(versions))
    stored = len(collection.indexes())
    if not stored:
        return None
    episodes = "1 stored episode is" if stored == 1 else f"{stored} stored episodes are"
    changes = [
        f"the version of the {name} was {before[name]} and is {version}"
        for name, version in versions.items()
        if before.get(name) is not None and version is not None and before[name] != version
    ]
    if not changes:
        return f"{episodes} reused."
    aside = collection.set_aside()
    return f"{episodes} played again: {' and '.join(changes)}. The earlier ones are in {aside}."


def _files_of(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder that episodes depend on, in the order of their paths."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not is_ignored(PurePosixPath(path.relative_to(folder)), _NOT_PLAYED):
            yield path


def _checksum(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as content:
            digest.update(content.read(_PART_BYTES))
            if size > _PART_BYTES:
                content.seek(max(_PART_BYTES, size - _PART_BYTES))
                digest.update(content.read(_PART_BYTES))
    return digest.hexdigest()[:_CHECKSUM_LENGTH]
