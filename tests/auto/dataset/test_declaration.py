"""``environment.yaml`` is read, or refused with its key and a remedy."""

from pathlib import Path

import pytest
from tests.support.dataset_folders import ENVIRONMENT_YAML, dataset_folder

from openenv.auto.dataset.declaration import load_declarations
from openenv.core.exceptions import ConfigurationError, OpenEnvError


def test_what_a_file_declares(tmp_path: Path) -> None:
    text = ENVIRONMENT_YAML + "    reward: {range: [0, 1]}\n    unknown: 1\n"
    (words,) = load_declarations(dataset_folder(tmp_path, text)).environments
    runtime = words.openenv()
    assert (words.id, words.splits, runtime.package, runtime.min_version) == (
        "words",
        ("train", "test"),
        "wordle",
        ">=0.3.0",
    )
    assert runtime.resources is not None
    assert runtime.resources.cpus == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hf-rl-env-0.1", "hf-rl-env-9", r"`spec_version`: Input should be 'hf-rl-env-0.1', got 'hf-rl-env-9'"),
        ("package: wordle", "package: wordle, image: words:1", "got image and package"),
        ("package: wordle, ", "", "exactly one of space_id, image, package, got none"),
        ("package: wordle", "package: '!'", "expected a package as pip takes it"),
        ("package: wordle", "space_id: wordle", r"Expected OWNER/NAME, got 'wordle'"),
        (">=0.3.0", "new", "expected a range of versions"),
        ("cpus: 1", "cpus: 0", r"\.0\.frameworks\.openenv\.resources\.cpus`: Input should be greater"),
        ("id: words", "id: ../words", r"`environments\.0\.id`"),
        ("environments:", "environments: []\nothers:", "at least 1 item"),
        ("environments:", "others:", r"`environments`: Field required"),
        ("[train, test]", "train", r"`environments\.0\.splits`"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ENVIRONMENT_YAML
    with pytest.raises(ConfigurationError, match=message):
        load_declarations(dataset_folder(tmp_path, ENVIRONMENT_YAML.replace(old, new)))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "words"])
def test_what_is_no_declaration(tmp_path: Path, text: str) -> None:
    with pytest.raises(OpenEnvError, match=r"environment\.yaml"):
        load_declarations(dataset_folder(tmp_path, text))


def test_an_id_is_there_once(tmp_path: Path) -> None:
    text = ENVIRONMENT_YAML + ENVIRONMENT_YAML.partition("environments:\n")[2]
    with pytest.raises(ConfigurationError, match="expected each id once, got words more than once"):
        load_declarations(dataset_folder(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (">=0.3.0", ">=99", r"Expected OpenEnv >=99 for words, got .*; install that version"),
        ("openenv:", "harbor:", r"`frameworks: openenv:` in environment.yaml, got those of harbor"),
    ],
)
def test_what_runs_elsewhere(tmp_path: Path, old: str, new: str, message: str) -> None:
    (words,) = load_declarations(dataset_folder(tmp_path, ENVIRONMENT_YAML.replace(old, new))).environments
    with pytest.raises(ConfigurationError, match=message):
        words.openenv()
