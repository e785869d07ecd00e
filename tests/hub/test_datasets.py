"""Publishing collected episodes as a dataset, and loading them from there."""

import json
from pathlib import Path

import pytest
import yaml
from tests.support.services.hub_server import MAX_REGULAR_BYTES, Answer, Fault, HubServer

from openenv.core.exceptions import ConfigurationError, HubError
from openenv.hub.client import Hub
from openenv.hub.datasets import push_dataset

COMMIT = "POST /api/datasets/ada/won/commit/main"
LINE = b'{"index": 0, "messages": [], "reward": 1.0}\n'


@pytest.fixture
def episodes(tmp_path: Path) -> Path:
    file = tmp_path / "data" / "episodes.jsonl"
    file.parent.mkdir()
    file.write_bytes(LINE)
    (file.parent / "left_out.jsonl").write_bytes(LINE)
    (file.parent / "settings.json").write_text("{}")
    return file


def published(hub: HubServer) -> dict[str, bytes]:
    return {path: content for path, content in hub.dataset("ada/won").files.items() if path != ".gitattributes"}


def test_a_new_dataset_has_the_episodes_and_a_card_that_names_their_file(hub: HubServer, episodes: Path) -> None:
    page = push_dataset(episodes, "ada/won", Hub(), message="Won ones", private=True)
    assert page == f"{hub.url}/datasets/ada/won"
    dataset = hub.dataset("ada/won")
    assert (dataset.private, dataset.messages) == (True, ["Won ones"])
    files = published(hub)
    assert files.keys() == {"episodes.jsonl", "README.md"}
    assert files["episodes.jsonl"] == LINE
    front = yaml.safe_load(files["README.md"].decode().split("---")[1])
    assert front["configs"] == [
        {"config_name": "default", "data_files": [{"split": "train", "path": "episodes.jsonl"}]}
    ]
    assert front["tags"] == ["openenv"]


def test_more_episodes_replace_the_file_and_leave_a_card_alone(hub: HubServer, episodes: Path) -> None:
    push_dataset(episodes, "ada/won", Hub())
    hub.dataset("ada/won").files["README.md"] = b"# mine\n"
    episodes.write_bytes(LINE * 2)
    push_dataset(episodes, "ada/won", Hub())
    assert published(hub) == {"episodes.jsonl": LINE * 2, "README.md": b"# mine\n"}
    assert not hub.dataset("ada/won").private


def test_a_public_dataset_is_private_before_it_gets_the_episodes(hub: HubServer, episodes: Path) -> None:
    hub.add("ada/won", {}, "dataset")
    push_dataset(episodes, "ada/won", Hub(), private=True)
    assert hub.dataset("ada/won").private
    lines = hub.lines()
    assert lines.index("PUT /api/datasets/ada/won/settings") < lines.index(COMMIT)
    assert "POST /api/repos/create" not in lines


def test_a_private_dataset_stays_private(hub: HubServer, episodes: Path) -> None:
    hub.add("ada/won", {}, "dataset", private=True)
    push_dataset(episodes, "ada/won", Hub())
    assert hub.dataset("ada/won").private


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_a_large_file_goes_to_the_storage(hub: HubServer, episodes: Path) -> None:
    large = json.dumps({"text": "x" * MAX_REGULAR_BYTES}).encode() + b"\n"
    episodes.write_bytes(large)
    push_dataset(episodes, "ada/won", Hub())
    assert published(hub)["episodes.jsonl"] == large
    assert list(hub.large.values()) == [large]


@pytest.mark.usefixtures("impatient")
def test_a_hub_in_trouble_is_asked_again(hub: HubServer, episodes: Path) -> None:
    hub.faults += [Fault(COMMIT, Answer(503, {"error": "busy"})), Fault(COMMIT, None, done=True)]
    push_dataset(episodes, "ada/won", Hub())
    assert published(hub)["episodes.jsonl"] == LINE
    assert hub.lines().count(COMMIT) == 2


def test_what_can_not_be_pushed(hub: HubServer, episodes: Path) -> None:
    with pytest.raises(HubError, match=r"create the dataset eve/won: your token may not do that"):
        push_dataset(episodes, "eve/won", Hub())
    with pytest.raises(ConfigurationError, match="There are no episodes to push"):
        push_dataset(episodes.with_name("other.jsonl"), "ada/won", Hub())
    assert hub.repos == {}
