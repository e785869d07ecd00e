"""Manifest of an environment's folder: ``openenv.yaml``."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from openenv.auto.dataset.reference import HUB_SCHEME
from openenv.auto.readme import described_by_readme
from openenv.core.documents import read_yaml
from openenv.core.exceptions import ConfigurationError

MANIFEST_FILE = "openenv.yaml"
DEFAULT_TASK_SET = "default"
"""Name of the task set whose rows ``AutoEnv`` plays."""
SHARED_KEYS = ("runtime", "action", "observation", "environment", "client")
"""Keys that other tools use too, for values of another shape."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
ModuleAttribute = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
ClassReference = Annotated[str, StringConstraints(pattern=r"^([A-Za-z_][\w.]*:)?[A-Za-z_]\w*$")]
# YAML reads 1.0 as a number.
Version = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value)]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
# YAML reads 1 as a number and true as a truth value; this gives what was written.
Variable = Annotated[str, BeforeValidator(lambda value: json.dumps(value) if isinstance(value, int | float) else value)]


class Manifest(BaseModel):
    """Contents of ``openenv.yaml``. Keys that are not listed here are kept for the tools that know them.

    Modules are named from the environment's folder: ``client:MyEnv`` is the class ``MyEnv`` in its ``client.py``.
    Each field's description has the form of its key.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    spec_version: Literal[1] = Field(default=1, description="the manifest's format: 1")
    name: Name = Field(description="the environment's name: letters, digits, _ and -")
    version: Version = Field(default="0.0.0", description="the environment's version, as in 0.1.0")
    type: str = Field(default="space", description="how it is deployed: space")
    runtime: str = Field(default="fastapi", description="what serves it: fastapi")
    app: ModuleAttribute = Field(default="server.app:app", description="the application, as in server.app:app")
    port: int = Field(default=8000, ge=1, le=65535, description="the server's port in a container, 1 to 65535")
    description: str = Field(default="", description="one sentence for people; by default the first one of the README")
    action: ClassReference | None = Field(default=None, description="the action's class, as in models:MyAction")
    observation: ClassReference | None = Field(
        default=None, description="the observation's class, as in models:MyObservation"
    )
    environment: ModuleAttribute | None = Field(
        default=None, description="the environment's class, as in server.my_environment:MyEnvironment"
    )
    client: ModuleAttribute | None = Field(default=None, description="the client's class, as in client:MyEnv")
    player: ModuleAttribute | None = Field(
        default=None, description="a function that makes a scripted player, as in player:make_player"
    )
    task_sets: dict[Name, str] = Field(
        default={},
        description="names of task sets and datasets' environments, as in "
        "{default: hf://datasets/ORG/REPO/ENV@REVISION}",
    )
    variables: dict[VariableName, Variable] = Field(
        default={}, description="names and values of a Space's environment variables, as in {LEVEL: easy}"
    )

    def task_sets_from(self, folder: Path) -> dict[str, str]:
        """Return the references of task sets by their names; a dataset that is a folder is one beside ``openenv.yaml``.

        Args:
            folder: The folder of this file.
        """
        return {
            name: text if text.startswith(HUB_SCHEME) else str(folder / text) for name, text in self.task_sets.items()
        }

    def seen_from(self, package: str) -> "Manifest":
        """Return the manifest with an ``app`` that is named from the folder.

        Public manifests also name it from a folder above, as in ``envs.my_env.server.app:app``.

        Args:
            package: The name of the package that the folder is, without the packages that it is in.
        """
        _, found, module = f".{self.app}".rpartition(f".{package}.")
        return self.model_copy(update={"app": module}) if found else self


def load_manifest(folder: Path) -> Manifest:
    """Read a folder's ``openenv.yaml``.

    Args:
        folder: The folder that holds it.

    Returns:
        The manifest, checked.

    Raises:
        ConfigurationError: The file can't be read, is no YAML, or has a key that is not as it must be; the message
            names the file, the key and the expected value.
    """
    file = folder / MANIFEST_FILE
    content = read_yaml(file)
    if not isinstance(content, dict):
        raise ConfigurationError(f"{file}: expected keys and values, such as `name: my_env`, but got {_kind(content)}.")
    others = keys_of_other_tools(content)
    content = {key: value for key, value in content.items() if key not in others}
    odd_keys = [key for key in content if not isinstance(key, str)]
    if odd_keys:
        raise ConfigurationError(f"{file}: a key must be a name, but got {odd_keys[0]!r}; put it in quotes.")
    try:
        return Manifest.model_validate({"description": described_by_readme(folder), **content})
    except ValidationError as error:
        raise ConfigurationError("\n".join(f"{file}: {fault}" for fault in _faults(error))) from error


def keys_of_other_tools(content: dict[Any, Any]) -> list[str]:
    """Return the keys of a manifest under which other tools keep what they need, such as a mapping of fields.

    Args:
        content: The manifest.

    Returns:
        Those keys of ours whose value has another shape; such a value is left to the tool that it is for.

    Example:
        >>> keys_of_other_tools({"name": "catch", "action": {"type": "object"}, "client": "client:CatchEnv"})
        ['action']
    """
    return [key for key in SHARED_KEYS if content.get(key) is not None and not isinstance(content[key], str)]


def _kind(content: Any) -> str:
    return "nothing" if content is None else type(content).__name__


def _faults(error: ValidationError) -> list[str]:
    """Return a sentence for each faulty key."""
    faults = []
    for fault in error.errors():
        key = str(fault["loc"][0])
        expected = Manifest.model_fields[key].description
        came = "is missing" if fault["type"] == "missing" else f"is {fault['input']!r}"
        faults.append(f"`{key}` {came}; it must be {expected}.")
    return faults
