"""A dataset's repository whose rows are tasks of the environment Wordle."""

import json
from pathlib import Path
from typing import Any

from tests.support.environment_folders import scaffold

ENVIRONMENT_YAML = """spec_version: hf-rl-env-0.1
environments:
  - id: words
    title: Short words
    splits: [train, test]
    frameworks:
      openenv: {min_version: ">=0.3.0", package: wordle, resources: {cpus: 1}}
"""

ROWS: dict[str, list[dict[str, Any]]] = {
    "train": [{"id": "a", "word_length": 4, "seed": 1, "note": "short"}, {"id": "b", "word_length": 6, "seed": 2}],
    "test": [{"id": "c", "word_length": 5, "seed": 3}],
}


def dataset_files(
    text: str = ENVIRONMENT_YAML, rows: dict[str, list[dict[str, Any]]] | None = None
) -> dict[str, bytes]:
    """Return the files of a repository, by their paths."""
    data = {f"data/{split}.jsonl": lines_of(each) for split, each in (ROWS if rows is None else rows).items()}
    return {"environment.yaml": text.encode(), **data}


def dataset_folder(
    folder: Path, text: str = ENVIRONMENT_YAML, rows: dict[str, list[dict[str, Any]]] | None = None
) -> Path:
    """Write a repository into a folder."""
    for path, content in dataset_files(text, rows).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def environment_with_rows(folder: Path, rows: dict[str, list[dict[str, Any]]]) -> Path:
    """Write an environment whose manifest has a dataset beside it as its task set ``default``."""
    dataset_folder(folder / "words", rows=rows)
    environment = scaffold(folder, "said_env")
    with (environment / "openenv.yaml").open("a") as manifest:
        manifest.write("task_sets: {default: ../words}\n")
    return environment


def lines_of(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
