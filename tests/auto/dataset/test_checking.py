"""A dataset's environments are checked: splits, rows for steps, and tasks that are there twice."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.dataset_folders import ENVIRONMENT_YAML, ROWS, dataset_folder

from openenv.auto.dataset.checking import dataset_faults
from openenv.core.exceptions import ConfigurationError


def test_what_is_as_it_must_be(tmp_path: Path) -> None:
    assert dataset_faults(str(dataset_folder(tmp_path))) == []


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ({**ROWS, "test": ROWS["train"][:1]}, "have the same id 'a'"),
        ({"train": [{"seed": 1}], "test": [{"seed": 1}]}, "got train[0] and test[0] with the same id"),
        ({key: [{"openenv_step": {"a": 1}}] for key in ("train", "test")}, "train[0] has the column openenv_step"),
        ({"train": [{"seed": 1}]}, "which environment.yaml declares; the dataset has train"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, rows: dict[str, Any], fault: str) -> None:
    (found,) = dataset_faults(str(dataset_folder(tmp_path, rows=rows)))
    assert fault in found


def test_each_environment_is_checked(tmp_path: Path) -> None:
    broken = ENVIRONMENT_YAML.partition("environments:\n")[2].replace("words", "other").replace("test]", "dev]")
    folder = dataset_folder(tmp_path, ENVIRONMENT_YAML + broken)
    (fault,) = dataset_faults(str(folder))
    assert fault.startswith(f"{folder}/other: expected the splits train, dev")
    assert dataset_faults(f"{folder}/words") == []
    with pytest.raises(ConfigurationError, match="environment"):
        dataset_faults(str(tmp_path / "data"))
