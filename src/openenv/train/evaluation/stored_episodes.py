"""Episodes that the folder of an evaluation has: reused, scored anew or played again, by what has changed since."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from openenv.auto.files import EnvironmentFile
from openenv.auto.package import EnvironmentPackage
from openenv.core.documents import read_json, read_text, write_json
from openenv.hub.ignoring import ALWAYS, is_ignored
from openenv.records.collection import Collection
from openenv.records.run_folder import RunFolder
from openenv.train.evaluation.rescoring import rescored_lines
from openenv.train.evaluation.rubric_files import rubric_files
from openenv.train.settings.play_settings import PlaySettings

__all__ = ["played_versions", "reuse_stored"]

_VERSIONS = "versions.json"
_NAMES = ("environment", "rubric", "model")
# Files that no episode depends on: those that are no part of an environment, tests and descriptions.
_NOT_PLAYED = (*ALWAYS, "tests", "*.md")
# Bytes of the beginning and of the end of a larger file that its checksum is of; weights have gigabytes.
_PART_BYTES = 1024 * 1024
_CHECKSUM_LENGTH = 12


def played_versions(settings: PlaySettings, package: EnvironmentPackage | None) -> dict[str, Any]:
    """Return the versions of the environment, its rubric and the model, each with a checksum; ``None`` if not known.

    That of a server and of a model behind an address is not known, nor that of a rubric that can't be separated from
    the environment, of whose version it is a part. ``rubric_files`` has the texts of the rubric's files.
    """
    versions: dict[str, Any] = {"environment": None, "rubric": None, "model": None, "rubric_files": {}}
    if package is not None and settings.starts_server:
        is_file = isinstance(package, EnvironmentFile)
        files = [package.file] if isinstance(package, EnvironmentFile) else list(_files_of(package.folder))
        rubric = [] if is_file else rubric_files(files)
        versions["environment"] = f"{package.version} ({_checksum(file for file in files if file not in rubric)})"
        if rubric:
            versions["rubric"] = _checksum(rubric)
            versions["rubric_files"] = {str(file.relative_to(package.folder)): read_text(file) for file in rubric}
    if settings.model is not None and settings.llm_endpoint is None and Path(settings.model).is_dir():
        run, path = RunFolder.of_model(Path(settings.model)), Path(settings.model)
        weights, name = run.weights_of(path) if run.config.is_file() else (path, path.name)
        versions["model"] = f"{name} ({_checksum(_files_of(weights))})"
    return versions


def reuse_stored(
    collection: Collection, versions: Mapping[str, Any], package: EnvironmentPackage | None = None
) -> str | None:
    """Keep the episodes of a folder, score them anew by another rubric, or have them played again.

    They are played again where the environment or the model is of another version; those that were there go to
    ``earlier/``. Where only the rubric is, those are scored anew that its earlier version scores as it did then.

    Args:
        collection: The folder.
        versions: The versions now, of `played_versions`.
        package: The environment, where it is played here.

    Returns:
        A sentence with the numbers of episodes and the reason; ``None`` where there are no episodes.
    """
    file = collection.path / _VERSIONS
    before = read_json(file) if file.is_file() else {}
    stored = len(collection.indexes())
    sentence = None
    if stored:
        changes = [
            f"the version of the {name} was {before[name]} and is {versions[name]}"
            for name in _changed(before, versions)
        ]
        if package is not None and _changed(before, versions) == ["rubric"]:
            sentence = _scored_anew(collection, package, before["rubric_files"], changes[0])
        elif changes:
            aside = collection.set_aside()
            sentence = f"{_episodes(stored)} played again: {' and '.join(changes)}. The earlier ones are in {aside}."
        else:
            sentence = f"{_episodes(stored)} reused."
    # Last: where scoring was interrupted, it is done again.
    write_json(file, dict(versions))
    return sentence


def _changed(before: Mapping[str, Any], versions: Mapping[str, Any]) -> list[str]:
    """Return what is of another version now, of what is known."""
    known = [name for name in _NAMES if before.get(name) is not None and versions.get(name) is not None]
    return [name for name in known if before[name] != versions[name]]


def _scored_anew(collection: Collection, package: EnvironmentPackage, earlier: Mapping[str, str], change: str) -> str:
    rescored = rescored_lines(collection, package, earlier)
    aside = collection.set_aside()
    for line in (*rescored.scored, *rescored.kept):
        collection.add(line) if "rewards" in line else collection.leave_out(line, line["reason"])
    parts = [f"{_episodes(len(rescored.scored))} scored anew"] if rescored.scored else []
    if rescored.kept:
        they = "it" if len(rescored.kept) == 1 else "they"
        parts.append(f"{_episodes(len(rescored.kept))} reused, since {they} failed")
    if rescored.lost:
        parts.append(f"{_episodes(len(rescored.lost))} played again, since {rescored.reason}")
    return f"{'; '.join(parts)}: {change}. The earlier ones are in {aside}."


def _episodes(count: int) -> str:
    return "1 stored episode is" if count == 1 else f"{count} stored episodes are"


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
