"""An environment of a dataset: its declaration, its tasks, and what runs it."""

import copy
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from openenv.auto.dataset.declaration import DatasetManifest, EnvironmentDeclaration, load_declarations
from openenv.auto.dataset.reference import DATASET_FILE, DatasetRef
from openenv.auto.discovery import find_environment
from openenv.auto.installing import TRUST_VARIABLE, install_package, is_trusted
from openenv.core.client.blocking import wait_for
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, TaskNotFoundError
from openenv.core.reset_check import nearest_name, suggestion, without_unknown
from openenv.core.tasks.row_cursor import RowCursor
from openenv.core.tasks.task_set import RESET_COLUMN, TaskSet

STEP_COLUMN = "openenv_step"
"""Column of rows that are for steps, which are refused."""


@dataclass(frozen=True)
class DatasetEnvironment:
    """An environment of a dataset at one revision. Nothing of the environment is started or imported.

    Attributes:
        ref: The reference, on the Hub with the commit.
        declaration: Declaration in ``environment.yaml``.
        tasks: Rows of the dataset, which are read on the first use.
    """

    ref: DatasetRef
    declaration: EnvironmentDeclaration
    tasks: TaskSet

    def splits(self) -> list[str]:
        """Return the names of its splits, in the order of its declaration.

        Raises:
            ConfigurationError: The rows can't be read, or the dataset lacks a split that is declared.
        """
        there = list(self.tasks.splits)
        missing = [split for split in self.declaration.splits if split not in there]
        if missing:
            raise ConfigurationError(
                f"{self.ref}: expected the splits {', '.join(self.declaration.splits)}, which {DATASET_FILE} declares; "
                f"the dataset has {', '.join(there) or 'none'}. Correct `splits` or `config_name` there."
            )
        return list(self.declaration.splits) or there

    def split(self, name: str | None = None) -> str:
        """Return the name of a split, by default the first one.

        Raises:
            TaskNotFoundError: There is no such split.
            ConfigurationError: The rows can't be read.
        """
        splits = self.splits()
        if name is None:
            return splits[0]
        if name not in splits:
            raise TaskNotFoundError(f"{self.ref} has no split {suggestion(name, splits)}. It has: {', '.join(splits)}.")
        return name

    def arguments(self, split: str, index: int, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what ``reset`` is passed for a task, as ``TaskSet`` reads a row; an empty cell is left out.

        Args:
            split: Name of the split.
            index: Index of the task.
            schema: JSON Schema of the parameters of ``reset``, as ``schemas()["reset"]`` of a client has it: columns
                that are none of them are left out, unless the row has an object of its own for ``reset``.

        Raises:
            TaskNotFoundError: There is no such task.
            ConfigurationError: The row lacks a column that ``reset`` needs, or is for steps.
        """
        ref = self.tasks.choose_task(self.split(split), index, None)
        origin = f"{self.ref}, {ref.split}[{ref.index}]"
        row = self.tasks.row(ref)
        if row.get(STEP_COLUMN) is not None:
            raise ConfigurationError(
                f"{origin}: expected a task in each row, got the column {STEP_COLUMN}: a row starts an episode, and "
                f"chooses none of its steps. Leave it out; {RESET_COLUMN} has what reset is passed."
            )
        fields = {name: value for name, value in self.tasks.fields(ref).items() if value is not None}
        arguments = fields if row.get(RESET_COLUMN) is not None else without_unknown(schema, fields)
        _check_columns(origin, fields, arguments, schema)
        return copy.deepcopy(arguments)

    def resets(self, split: str, schema: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return what ``reset`` is passed for each task of a split; raises as ``arguments`` does."""
        count = self.tasks.num_tasks(self.split(split))
        return [self.arguments(split, index, schema) for index in range(count)]

    @property
    def declared_target(self) -> str:
        """The target of what runs it, which needs to be neither here nor trusted where its server runs elsewhere."""
        runtime = self.declaration.openenv()
        if runtime.space_id is not None:
            return runtime.space_id
        return Requirement(str(runtime.package)).name if runtime.image is None else f"docker:{runtime.image}"

    def target(self, *, trusted: bool = False) -> str:
        """Return the target of what runs it, which may be another author's code.

        A package that is not installed is installed. A Space is for its caller to connect to or to download.

        Args:
            trusted: Whether code from elsewhere may be installed and run; else ``OPENENV_TRUST_REMOTE_CODE`` decides,
                or the user at the terminal.

        Raises:
            ConfigurationError: The code is not trusted, the environment is for another version of OpenEnv, or a
                variable that it needs is not set.
            ProviderError: The package could not be installed.
        """
        runtime = self.declaration.openenv()
        declared = self.declared_target
        missing = [name for name in runtime.secrets if not os.environ.get(name)]
        if missing:
            raise ConfigurationError(f"Expected the variables {', '.join(missing)}, which {self.ref} needs; set them.")
        if runtime.space_id is not None:
            return declared
        if runtime.image is not None:
            if not is_trusted(f"the image {runtime.image}", trusted=trusted):
                raise ConfigurationError(
                    f"{self.ref} runs the image {runtime.image}. If you trust its author, give trust_remote_code=True, "
                    f"--trust-remote-code, or set {TRUST_VARIABLE}=1. A server of it that runs elsewhere needs no "
                    "trust: give its --base-url, or AutoEnv its base_url with skip_install=True."
                )
            return declared
        requirement = Requirement(str(runtime.package))
        if not _is_installed(requirement):
            install_package(str(requirement), trusted=trusted)
        return declared

    def secrets(self) -> dict[str, str]:
        """Return the values of the variables that it needs."""
        names = self.declaration.openenv().secrets
        return {name: os.environ[name] for name in names if name in os.environ}


def open_dataset(reference: str) -> DatasetEnvironment:
    """Find an environment of a dataset. On the Hub its repository is downloaded, at one commit; no code is run.

    Args:
        reference: As for ``DatasetRef.parse``.

    Raises:
        ConfigurationError: It is no reference, ``environment.yaml`` is not there or not as it must be, or it has no
            such environment.
        HubError: There is no such dataset or revision, or the Hub can't be reached.

    Example::

        sums = open_dataset("hf://datasets/me/sums/easy@v1")
        sums.tasks.num_tasks("train")
    """
    return _opened(*_repository(reference))


def open_repository(reference: str) -> list[DatasetEnvironment]:
    """Find all environments of a dataset, or that of a reference which names one; raises as ``open_dataset`` does."""
    ref, manifest, folder, commit = _repository(reference)
    if ref.environment is not None:
        return [_opened(ref, manifest, folder, commit)]
    return [_opened(ref.pinned(each.id, commit), manifest, folder, commit) for each in manifest.environments]


def _repository(reference: str) -> tuple[DatasetRef, DatasetManifest, Path, str | None]:
    """Return a reference with its repository: the declarations, the folder here, and the commit on the Hub."""
    ref = DatasetRef.parse(reference)
    if ref.is_local:
        return ref, load_declarations(Path(ref.repo)), Path(ref.repo).resolve(), None
    from openenv.hub.downloading import download_dataset  # with its library, which takes long

    folder = download_dataset(ref.repo_name)
    return ref, load_declarations(folder), folder, folder.parent.name


def _opened(ref: DatasetRef, manifest: DatasetManifest, folder: Path, commit: str | None) -> DatasetEnvironment:
    declaration = _declared(manifest, ref)
    return DatasetEnvironment(ref.pinned(declaration.id, commit), declaration, _task_set(declaration, folder))


def row_cursor(opened: DatasetEnvironment, split: str | None, client: EnvClient[Any, Any, Any]) -> RowCursor:
    """Return the tasks of a client's resets; its server is started if it is not yet. This blocks.

    Args:
        opened: The environment.
        split: The split; the first one if ``None``.
        client: A client of what runs it.

    Raises:
        TaskNotFoundError: There is no such split.
        ConfigurationError: The rows can't be read.
        ConnectionFailedError: There is no server.
    """
    chosen = opened.split(split)
    schema = wait_for(client.schemas).get("reset")
    arguments = partial(opened.arguments, chosen, schema=schema)
    return RowCursor(str(opened.ref), opened.tasks.splits[chosen], arguments)


def _declared(manifest: DatasetManifest, ref: DatasetRef) -> EnvironmentDeclaration:
    ids = [each.id for each in manifest.environments]
    if ref.environment is None and len(ids) > 1:
        example = ref.pinned(ids[0], ref.revision)
        raise ConfigurationError(f"Expected one of the environments {', '.join(ids)} of {ref}, as in {example}.")
    wanted = ids[0] if ref.environment is None else ref.environment
    if wanted not in ids:
        nearest = nearest_name(wanted, ids)
        hint = f" (did you mean {nearest!r}?)" if nearest else ""
        raise ConfigurationError(f"{ref} is not in {DATASET_FILE}{hint}. It has: {', '.join(ids)}.")
    return manifest.environments[ids.index(wanted)]


def _task_set(declaration: EnvironmentDeclaration, folder: Path) -> TaskSet:
    files = {split: (folder / file).resolve() for split, file in declaration.dataset.items()}
    for split, file in files.items():
        if not file.is_relative_to(folder) or not file.is_file():
            raise ConfigurationError(
                f"{DATASET_FILE}: expected a file of the repository as the rows of the split {split}, got "
                f"{declaration.dataset[split]!r}; there is none."
            )
    return TaskSet(files or folder, config=None if files else declaration.config_name)


def _is_installed(requirement: Requirement) -> bool:
    """Return whether an environment's package is installed, in a version that fits.

    Raises:
        ConfigurationError: Another version is installed.
    """
    try:
        installed = find_environment(requirement.name).version
    except EnvironmentNotFoundError:
        return False
    with suppress(PackageNotFoundError):  # of an environment whose distribution has another name
        installed = version(requirement.name)
    if not requirement.specifier.contains(installed, prereleases=True):
        raise ConfigurationError(
            f"Expected the package {requirement}, got its version {installed}: pip install '{requirement}'"
        )
    return True


def _check_columns(
    origin: str, row: Mapping[str, Any], arguments: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> None:
    """Refuse a row without a column that ``reset`` needs, and one of which it takes none."""
    missing = [name for name in (schema or {}).get("required", ()) if name not in arguments]
    if not arguments and row and not missing:
        accepted = sorted((schema or {}).get("properties", ()))
        raise ConfigurationError(
            f"{origin}: expected columns that reset takes ({', '.join(accepted) or 'seed'}), got {', '.join(row)}. The "
            f"rows may be another environment's; else add an object with what reset is passed in {RESET_COLUMN}."
        )
    if missing:
        raise ConfigurationError(
            f"{origin}: expected the column {' and '.join(missing)}, which reset needs; the row has "
            f"{', '.join(arguments) or 'nothing that reset takes'}. Add it, or an object with it in {RESET_COLUMN}."
        )
