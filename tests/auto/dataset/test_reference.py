"""References to environments of datasets are read, and written as they were."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.dataset_folders import dataset_folder

from openenv.auto.dataset.reference import DatasetRef, is_dataset, split_of_tasks
from openenv.core.exceptions import ConfigurationError

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


@given(NAMES, NAMES, NAMES | st.none(), NAMES | st.none())
def test_a_reference_is_written_as_it_is_read(
    owner: str, name: str, environment: str | None, revision: str | None
) -> None:
    ref = DatasetRef(f"{owner}/{name}", environment, revision)
    assert DatasetRef.parse(str(ref)) == ref
    assert is_dataset(str(ref))
    assert split_of_tasks(f"{ref}?split=test") == (str(ref), "test")


@pytest.mark.parametrize(
    "text",
    [
        "hf://",
        "hf://datasets/me",
        "hf://spaces/me/words",
        "hf://datasets/me/words/a/b",
        "hf://datasets/me/words@",
        "hf://datasets/me/words@a b",
    ],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(
        ConfigurationError, match="Expected an environment of a dataset, as in hf://datasets/ORG/REPO/ENV@"
    ):
        DatasetRef.parse(text)


def test_a_folder(tmp_path: Path) -> None:
    folder = dataset_folder(tmp_path / "repo")
    for text in (str(folder), str(folder / "environment.yaml")):
        assert DatasetRef.parse(text) == DatasetRef(str(folder), is_local=True)
        assert is_dataset(text)
    assert DatasetRef.parse(f"{folder}/words").environment == "words"
    assert str(DatasetRef.parse(f"{folder}/words")) == f"{folder}/words"
    assert not is_dataset(str(folder / "data"))
    with pytest.raises(ConfigurationError, match=r"got '.*'; there is no .*environment\.yaml"):
        DatasetRef.parse(str(tmp_path))


def test_what_names_no_split_of_a_dataset() -> None:
    assert [split_of_tasks(text) for text in ("test", "tasks.jsonl", "10", "hf://datasets/a/b?split=")] == [None] * 4
