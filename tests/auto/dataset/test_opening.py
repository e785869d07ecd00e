"""An environment of a dataset is found in a folder and on the Hub, and its rows are what resets are passed."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.dataset_folders import ENVIRONMENT_YAML, ROWS, dataset_files, dataset_folder, environment_with_rows
from tests.support.environments.common import CounterEnvironment
from tests.support.servers import RunningServer
from tests.support.services.hub_server import HubServer

from openenv import AutoEnv
from openenv.auto.dataset.opening import open_dataset, open_repository
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentNotFoundError,
    HubError,
    RequestRejectedError,
    TaskNotFoundError,
)

SCHEMA = {"properties": {"seed": {}, "word_length": {}}, "additionalProperties": False}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's trust nor its downloads count."""
    monkeypatch.delenv("OPENENV_TRUST_REMOTE_CODE", raising=False)


def test_rows_are_what_reset_is_passed(tmp_path: Path) -> None:
    words = open_dataset(str(dataset_folder(tmp_path)))
    assert str(words.ref) == f"{tmp_path}/words"
    assert words.splits() == ["train", "test"]
    assert words.arguments("train", 0, SCHEMA) == {"seed": 1, "word_length": 4}
    assert words.arguments("train", 1) == {"id": "b", "word_length": 6, "seed": 2}  # without the empty note
    assert words.resets("test", SCHEMA) == [{"seed": 3, "word_length": 5}]
    assert words.target() == "wordle"
    with pytest.raises(TaskNotFoundError, match=r"no split 'tst' \(did you mean 'test'\?\)\. It has: train, test\."):
        words.resets("tst")
    with pytest.raises(TaskNotFoundError, match="index from 0 to 0 in the split test, got 1"):
        words.arguments("test", 1)


@pytest.mark.parametrize(
    ("row", "arguments"),
    [
        ({"openenv_reset": {"seed": 4, "level": "hard"}, "seed": 9}, {"seed": 4, "level": "hard"}),
        ({"task": {"seed": 5, "answer": "x"}}, {"seed": 5}),
        ({"task": "a text", "seed": 6}, {"seed": 6}),
    ],
)
def test_a_row_may_have_an_object_for_reset(tmp_path: Path, row: dict[str, Any], arguments: dict[str, Any]) -> None:
    words = open_dataset(str(dataset_folder(tmp_path, rows={"train": [row], "test": [row]})))
    assert words.arguments("train", 0, SCHEMA) == arguments


def test_rows_of_another_environment_are_no_tasks(tmp_path: Path) -> None:
    rows = {"train": [{"question": "1 + 1 ="}], "test": [{"question": "1 + 2 ="}]}
    words = open_dataset(str(dataset_folder(tmp_path, rows=rows)))
    message = r"train\[0\]: expected columns that reset takes \(seed, word_length\), got question"
    with pytest.raises(ConfigurationError, match=message):
        words.resets("train", SCHEMA)


def test_rows_that_are_no_tasks(tmp_path: Path) -> None:
    step, none = {"word": "a", "openenv_step": {"word": "crane"}}, {"word": "b", "openenv_step": None}
    words = open_dataset(str(dataset_folder(tmp_path, rows={"train": [step], "test": [none]})))
    with pytest.raises(
        ConfigurationError, match=r"train\[0\]: expected a task in each row, got the column openenv_step"
    ):
        words.arguments("train", 0)
    with pytest.raises(
        ConfigurationError, match=r"test\[0\]: expected the column seed, which reset needs; the row has nothing"
    ):
        words.arguments("test", 0, {**SCHEMA, "required": ["seed"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENVIRONMENT_YAML.replace("[train, test]", "[train, dev]"), "expected the splits train, dev, .* has .*test"),
        (ENVIRONMENT_YAML.replace("splits: [train, test]", "config_name: hard"), "can't be read from the dataset"),
    ],
)
def test_splits_and_configurations_that_are_not_there(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        open_dataset(str(dataset_folder(tmp_path, text))).splits()


def test_splits_with_other_columns(tmp_path: Path) -> None:
    rows: dict[str, Any] = {"train": [{"seed": 1}], "test": [{"seed": 1, "level": "hard"}]}
    with pytest.raises(ConfigurationError, match=r"can't be read from the dataset [\s\S]*level"):
        open_dataset(str(dataset_folder(tmp_path, rows=rows))).splits()


def test_files_of_splits_may_be_declared(tmp_path: Path) -> None:
    declared = ENVIRONMENT_YAML.replace("splits: [train, test]", "dataset: {test: data/train.jsonl}")
    words = open_dataset(str(dataset_folder(tmp_path / "repo", declared)))
    assert (words.splits(), words.tasks.num_tasks("test")) == (["test"], 2)
    (tmp_path / "secret.jsonl").write_bytes(b"{}")
    for file in ("../secret.jsonl", "data/none.jsonl"):
        dataset_folder(tmp_path / "repo", declared.replace("data/train.jsonl", file))
        with pytest.raises(ConfigurationError, match="expected a file of the repository as the rows of the split test"):
            open_dataset(str(tmp_path / "repo"))


def test_one_of_several_environments(tmp_path: Path) -> None:
    second = ENVIRONMENT_YAML.partition("environments:\n")[2].replace("words", "long-words")
    folder = dataset_folder(tmp_path, ENVIRONMENT_YAML + second)
    assert [each.declaration.id for each in open_repository(str(folder))] == ["words", "long-words"]
    assert open_dataset(f"{folder}/long-words").declaration.id == "long-words"
    with pytest.raises(
        ConfigurationError, match=r"Expected one of the environments words, long-words of .*, as in .*/words\."
    ):
        open_dataset(str(folder))
    with pytest.raises(ConfigurationError, match=r"word is not in environment.yaml \(did you mean 'words'\?\)"):
        open_dataset(f"{folder}/word")


def test_a_dataset_on_the_hub_is_at_one_commit(hub: HubServer) -> None:
    repo = hub.add("ada/words", dataset_files(), kind="dataset")
    first = repo.head
    words = open_dataset("hf://datasets/ada/words/words")
    assert str(words.ref) == f"hf://datasets/ada/words/words@{first}"
    repo.head = "f" * 40
    repo.commits[repo.head] = dataset_files(rows={**ROWS, "test": [{"id": "new", "seed": 7}]})
    assert open_dataset("hf://datasets/ada/words").resets("test", SCHEMA) == [{"seed": 7}]
    assert open_dataset(str(words.ref)).resets("test", SCHEMA) == [{"seed": 3, "word_length": 5}]


@pytest.mark.usefixtures("impatient")
def test_what_is_not_on_the_hub(hub: HubServer) -> None:
    hub.add("ada/words", dataset_files(), kind="dataset")
    hub.add("ada/plain", {"train.jsonl": b"{}\n"}, kind="dataset")
    with pytest.raises(HubError, match="Could not find ada/words at v9: there is no such branch, tag or commit"):
        open_dataset("hf://datasets/ada/words/words@v9")
    with pytest.raises(HubError, match="Could not find ada/others: there is none of that name"):
        open_dataset("hf://datasets/ada/others")
    with pytest.raises(ConfigurationError, match=r"environment\.yaml"):
        open_dataset("hf://datasets/ada/plain")


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ("image: words:1", r"runs the image words:1\. If you trust its author, give trust_remote_code=True"),
        ("package: openenv-no-such-words", r"The package openenv-no-such-words is not installed, .*trust_remote_code"),
        ("package: wordle>=99", r"Expected the package wordle>=99, got its version"),
        (
            "package: wordle, secrets: [NO_SUCH_KEY]",
            r"Expected the variables NO_SUCH_KEY, which .*/words needs; set them",
        ),
    ],
)
def test_code_from_elsewhere_needs_trust(tmp_path: Path, runtime: str, message: str) -> None:
    folder = dataset_folder(tmp_path, ENVIRONMENT_YAML.replace("package: wordle", runtime))
    with pytest.raises(ConfigurationError, match=message):
        AutoEnv.from_env(str(folder), split="train")


def test_what_is_trusted_and_what_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dataset_folder(tmp_path, ENVIRONMENT_YAML.replace("package: wordle", "image: words:1"))
    assert open_dataset(str(folder)).target(trusted=True) == "docker:words:1"
    monkeypatch.setenv("OPENENV_TRUST_REMOTE_CODE", "1")
    assert open_dataset(str(folder)).target() == "docker:words:1"
    space = dataset_folder(tmp_path / "space", ENVIRONMENT_YAML.replace("package: wordle", "space_id: ada/wordle"))
    assert open_dataset(str(space)).target() == "ada/wordle"  # it runs on the Hub
    keyed = ENVIRONMENT_YAML.replace("package: wordle", "package: wordle, secrets: [WORDS_KEY]")
    monkeypatch.setenv("WORDS_KEY", "k")
    assert open_dataset(str(dataset_folder(tmp_path / "keyed", keyed))).secrets() == {"WORDS_KEY": "k"}


@pytest.mark.level("process")  # it starts a server
def test_each_reset_of_a_client_is_passed_the_next_row(tmp_path: Path) -> None:
    client = AutoEnv.from_env(str(dataset_folder(tmp_path)), split="train")
    with client.sync() as env:
        assert (env.dataset_index, env.current_row, env.dataset_ref) == (None, None, f"{tmp_path}/words")
        lengths = []
        for index in (0, 1, 0):  # after the last row comes the first
            lengths.append(env.reset().observation.word_length)
            assert (env.dataset_index, env.current_row["id"]) == (index, ROWS["train"][index]["id"])
        assert lengths == [4, 6, 4]
        assert env.reset(index=1, episode_id="x").observation.word_length == 6
        assert len(env.dataset) == 2
        other = env.new_session()
        assert (other.reset().observation.word_length, other.dataset_index) == (4, 0)
        with pytest.raises(TaskNotFoundError, match="Expected an index from 0 to 1 of"):
            env.reset(index=2)
        with pytest.raises(ConfigurationError, match="Expected word_length of the reset from row"):
            env.reset(word_length=7)
        with pytest.raises(RequestRejectedError):
            env.reset(wordlength=7)
    with pytest.raises(ConfigurationError, match="Expected split with an environment of a dataset"):
        AutoEnv.from_env("wordle", split="train")


@pytest.mark.parametrize("runtime", ["image: words:1", "space_id: ada/none-such", "package: openenv-none-such"])
def test_rows_for_a_server_that_runs_elsewhere_need_no_trust(tmp_path: Path, runtime: str) -> None:
    text = ENVIRONMENT_YAML.replace("package: wordle", runtime)
    folder = dataset_folder(tmp_path, text, rows={"train": [{"seed": 1}], "test": [{"seed": 2}]})
    with RunningServer(create_fastapi_app(CounterEnvironment)) as server:
        with pytest.raises(ConfigurationError, match="trust_remote_code=True"):
            AutoEnv.from_env(str(folder), base_url=server.url)
        with AutoEnv.from_env(str(folder), base_url=server.url, skip_install=True, split="test").sync() as env:
            assert env.reset().done is False
            assert env.current_row == {"seed": 2}


@pytest.mark.level("process")  # it starts a server
def test_rows_of_the_default_task_set_of_an_environment(tmp_path: Path) -> None:
    said = environment_with_rows(tmp_path, {"train": [{"seed": 1}], "test": [{"seed": 2}, {"seed": 3}]})
    with pytest.raises(TaskNotFoundError, match=r"no split 'dev'\. It has: train, test\."):
        AutoEnv.from_env(str(said), split="dev")
    with AutoEnv.from_env(str(said), split="test").sync() as env:
        rows = []
        for _ in range(3):
            env.reset()
            rows.append(env.current_row)
        assert rows == [{"seed": 2}, {"seed": 3}, {"seed": 2}]
        assert env.dataset_ref == f"{said}/../words/words"


def test_a_dataset_s_environment_where_another_target_is_taken(tmp_path: Path) -> None:
    import openenv

    with pytest.raises(EnvironmentNotFoundError, match="is a dataset's environment; play it with `openenv run"):
        openenv.make(str(dataset_folder(tmp_path)))
