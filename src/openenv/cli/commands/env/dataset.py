"""``openenv env``: a dataset's environments are shown, and checked."""

import json
from typing import Annotated, Any

import typer

from openenv.auto.dataset.checking import dataset_faults
from openenv.auto.dataset.declaration import RUNTIMES
from openenv.auto.dataset.opening import DatasetEnvironment, open_repository
from openenv.auto.target import Target, TargetKind
from openenv.cli.groups import command_group
from openenv.cli.options import AsJson
from openenv.cli.targets import refusing

app = command_group("Look at the environments that a dataset declares in its environment.yaml, and check them.")

Reference = Annotated[
    str,
    typer.Argument(
        metavar="REF", help="hf://datasets/ORG/REPO/ENV@REVISION, a folder with environment.yaml, or FOLDER/ENV."
    ),
]


@app.command()
def inspect(reference: Reference = ".", as_json: AsJson = False) -> None:
    """Show what runs the environments of a dataset, and their tasks. Nothing of them is run."""
    with refusing():
        described = [_described(each) for each in open_repository(_dataset(reference))]
    if as_json:
        typer.echo(json.dumps(described, indent=2, ensure_ascii=False))
        return
    for number, each in enumerate(described):
        if number:
            typer.echo()
        for name, value in each.items():
            if value:
                typer.echo(f"{name:<12} {_text(value)}")


@app.command()
def validate(reference: Reference = ".") -> None:
    """Check the environments that a dataset declares.

    It checks environment.yaml, the splits, and that no task is there twice, and ends with status 1 where something is
    wrong. Nothing of an environment is run.
    """
    with refusing():
        faults = dataset_faults(_dataset(reference))
    for fault in faults:
        typer.echo(f"fail  {fault}")
    if faults:
        raise typer.Exit(1)
    typer.echo(f"{reference} is as it must be.")


def _dataset(reference: str) -> str:
    return Target.of(reference).required({TargetKind.DATASET}, "`openenv env`").text


def _described(opened: DatasetEnvironment) -> dict[str, Any]:
    declaration = opened.declaration
    runtime = declaration.frameworks.openenv
    runs = {} if runtime is None else {name: getattr(runtime, name) for name in RUNTIMES if getattr(runtime, name)}
    resources = (
        None if runtime is None or runtime.resources is None else runtime.resources.model_dump(exclude_none=True)
    )
    return {
        "reference": str(opened.ref),
        "title": declaration.title,
        "description": declaration.description,
        "runs": runs,
        "openenv": None if runtime is None else runtime.min_version,
        "resources": resources,
        "secrets": [] if runtime is None else list(runtime.secrets),
        "frameworks": sorted(declaration.frameworks.model_dump(exclude_none=True)),
        "tasks": {split: opened.tasks.task_counts[split] for split in opened.splits()},
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
