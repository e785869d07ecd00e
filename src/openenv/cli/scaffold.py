"""Folders of new environments, written from the files under ``templates``."""

import json
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

import typer
import yaml

from openenv._version import __version__
from openenv.auto.names import class_prefix, environment_key

TEMPLATES: Traversable = files("openenv.cli") / "templates"
SUFFIX = ".tmpl"
NAME_IN_PATHS = "__name__"
# As the name of a package these would hide modules that the environment itself imports, or be hidden by them. Python
# leaves its tests out of the list of its modules.
RESERVED_NAMES = frozenset({"openenv", "server", "models", "client", "test", "tests"}) | sys.stdlib_module_names

# For environments whose rewards are known: those around others declare nothing.
_DECLARATIONS = """\
# Declarations that `openenv validate` compares with what it measures. Keep them true to your environment.
validation:
  policy: openenv-v1
  reward: {range: [0.0, 1.0], floor_margin: 0.25}
  resources: {cpu: 1, memory_mb: 512, disk_mb: 256, episode_timeout_s: 60}
  network: {mode: no-network}
  capabilities:
    verifier: {kind: reward_channel}
  types: {tags: [example]}
  execution: {probe_path: validation/runtime.json, dockerfile: server/Dockerfile}
"""


def check_name(name: str) -> None:
    """Check the name of a new environment, which is its package's too.

    Raises:
        typer.BadParameter: It can't be a package's name, or another module has it.
    """
    if not name:
        raise typer.BadParameter("The name cannot be empty: use letters, digits and _, such as my_env.")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        raise typer.BadParameter(
            f"{name!r} can't be a package's name, since it is not a valid Python identifier that begins with a letter: "
            "use letters, digits and _, such as my_env."
        )
    other = name if name.endswith("_env") else f"{name}_env"
    if name in RESERVED_NAMES:
        raise typer.BadParameter(f"{name!r} is the name of another module; try {other}.")
    owners = packages_distributions().get(name)
    if owners:
        another = f"my_{name}" if other == name else other
        raise typer.BadParameter(f"{name!r} is a module of the installed package {owners[0]}; try {another}.")


def new_folder(output_dir: Path, name: str) -> Path:
    """Return the folder of a new environment, which is not there yet, or is empty.

    Raises:
        typer.BadParameter: Something is there.
    """
    folder = output_dir / name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(f"{folder} already exists; choose another name or --output-dir.")
    return folder


def common_values(name: str) -> dict[str, str]:
    """Return the values of ``$name`` and its like in the files of every environment."""
    return {
        "name": name,
        "manifest_name": yaml.safe_dump({"name": name}).strip(),  # in quotes where YAML reads another value, as of `on`
        "key": environment_key(name),
        "prefix": class_prefix(name),
        "title": name.replace("_", " ").strip().title(),
        "image": name.replace("_", "-"),
        "manifest_player": "player: player:make_player",
        "manifest_validation": _DECLARATIONS,
        "project_wheel": "",
        "sources": "",
        **requirement_values([f"openenv-core>={__version__}"]),
    }


def requirement_values(needed: Sequence[str]) -> dict[str, str]:
    """Return the values of names in the files of an environment that list its requirements."""
    return {"dependencies": json.dumps(needed, ensure_ascii=False), "requirements": "\n".join(needed)}


def write_environment(kinds: Sequence[str], folder: Path, values: Mapping[str, str]) -> None:
    """Write the folder of an environment: the files that every one has, and those of its kinds."""
    for kind in ("common", *kinds):
        _write_files(TEMPLATES / kind, folder, values)


def _write_files(source: Traversable, target: Path, values: Mapping[str, str]) -> None:
    """Write the files of a folder of templates."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _write_files(entry, target / entry.name, values)
        elif entry.name.endswith(SUFFIX):
            _write_file(entry, target, values)


def _write_file(template: Traversable, folder: Path, values: Mapping[str, str]) -> None:
    """Write the file of a template into a folder."""
    name = template.name.removesuffix(SUFFIX).replace(NAME_IN_PATHS, values["name"])
    content = Template(template.read_text(encoding="utf-8")).substitute(values)
    (folder / name).write_text(content, encoding="utf-8")
