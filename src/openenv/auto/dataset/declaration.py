"""Contents of ``environment.yaml``: the environments that a dataset's rows are tasks of."""

from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from openenv._version import __version__
from openenv.auto.dataset.reference import DATASET_FILE
from openenv.auto.manifest import Name, VariableName
from openenv.core.documents import read_yaml
from openenv.core.exceptions import ConfigurationError
from openenv.hub.names import checked_repo_id

RUNTIMES = ("space_id", "image", "package")
"""Keys of what runs an environment, one of which it has."""


def _versions(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError('expected a range of versions, as in ">=0.3.0"') from error
    return text


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError("expected a package as pip takes it, as in openenv-wordle>=0.3") from error
    return text


Versions = Annotated[
    str,
    BeforeValidator(lambda value: f">={value}" if str(value)[:1].isdigit() else value),
    AfterValidator(_versions),
]


class RuntimeResources(BaseModel):
    """Resources of a machine that an environment needs.

    Attributes:
        cpus: Number of processors.
        memory_gb: Memory in gigabytes.
        gpus: Number of GPUs.
        network: Whether it needs a network.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    cpus: float | None = Field(default=None, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    gpus: int | None = Field(default=None, ge=0)
    network: bool | None = None


class Runtime(BaseModel):
    """Runtime of an environment: exactly one of a Space, an image and a package.

    Attributes:
        min_version: Versions of OpenEnv that it needs, as in ``>=0.3.0``; a number alone is the lowest.
        space_id: A Space, as ``OWNER/NAME``.
        image: An image of a container.
        package: A package as pip takes it, as in ``openenv-wordle>=0.3``.
        resources: What it needs of a machine; for people, nothing acts on it.
        secrets: Names of environment variables that have to be set.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    min_version: Versions | None = None
    space_id: Annotated[str, AfterValidator(lambda text: checked_repo_id(text, owner_needed=True))] | None = None
    image: str | None = Field(default=None, min_length=1)
    package: Annotated[str, AfterValidator(_requirement)] | None = None
    resources: RuntimeResources | None = None
    secrets: tuple[VariableName, ...] = ()

    @model_validator(mode="after")
    def _is_one(self) -> "Runtime":
        given = [name for name in RUNTIMES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"expected exactly one of {', '.join(RUNTIMES)}, got {' and '.join(given) or 'none'}")
        return self


class Frameworks(BaseModel):
    """Runtimes of an environment, by framework; the keys of other frameworks are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    openenv: Runtime | None = None


class EnvironmentDeclaration(BaseModel):
    """One environment of a dataset.

    Attributes:
        id: Its name within the dataset.
        title: A name for people.
        description: A sentence for people.
        config_name: Configuration of the dataset that has its rows, where the dataset has several.
        splits: Splits that are its tasks; all of the dataset's if empty.
        dataset: File of rows of each split, from the root of the repository, where ``datasets`` does not find them.
        runtime: What all frameworks need; for people, nothing acts on it.
        reward: Form of the reward; for people, nothing acts on it.
        frameworks: What runs it, by framework.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    id: Name
    title: str = ""
    description: str = ""
    config_name: str | None = None
    splits: tuple[str, ...] = ()
    dataset: dict[str, str] = {}
    runtime: dict[str, Any] = {}
    reward: Any = None
    frameworks: Frameworks

    def openenv(self) -> Runtime:
        """Return what runs it here.

        Raises:
            ConfigurationError: It is for other frameworks, or for another version of OpenEnv.
        """
        runtime = self.frameworks.openenv
        if runtime is None:
            others = ", ".join(self.frameworks.model_extra or ()) or "none"
            raise ConfigurationError(
                f"Expected {self.id} to have `frameworks: openenv:` in {DATASET_FILE}, got those of {others}. Add "
                "the Space, image or package that runs it."
            )
        if runtime.min_version and not SpecifierSet(runtime.min_version).contains(__version__, prereleases=True):
            raise ConfigurationError(
                f"Expected OpenEnv {runtime.min_version} for {self.id}, got {__version__}; install that version, or "
                "a revision of the dataset for this one."
            )
        return runtime


class DatasetManifest(BaseModel):
    """Contents of ``environment.yaml``. Keys that are not listed here are kept for the tools that know them.

    Attributes:
        spec_version: The file's format.
        environments: The environments.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    spec_version: Literal["hf-rl-env-0.1"]
    environments: tuple[EnvironmentDeclaration, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_are_unique(self) -> "DatasetManifest":
        ids = [each.id for each in self.environments]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        if twice:
            raise ValueError(f"expected each id once, got {', '.join(twice)} more than once")
        return self


def load_declarations(folder: Path) -> DatasetManifest:
    """Read the ``environment.yaml`` of a folder.

    Raises:
        ConfigurationError: It is not there, or not as it must be; the message has a line for each fault, with its key.

    Example::

        [each.id for each in load_declarations(Path("my_dataset")).environments]
    """
    file = folder / DATASET_FILE
    content = read_yaml(file)
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{file}: expected the keys spec_version and environments, got {type(content).__name__}."
        )
    try:
        return DatasetManifest.model_validate(content)
    except ValidationError as error:
        faults = [
            f"{file}: `{'.'.join(map(str, fault['loc'])) or 'all of it'}`: "
            f"{fault['msg'].removeprefix('Value error, ')}, got {fault['input']!r:.100}."
            for fault in error.errors()
        ]
        raise ConfigurationError("\n".join(faults)) from error
