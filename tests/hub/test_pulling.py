"""Getting a repository as a folder to work in."""

from pathlib import Path

import pytest
from tests.support.environment_folders import write_files
from tests.support.services.hub_server import Answer, Fault, HubServer

from openenv.core.exceptions import ConfigurationError, HubError
from openenv.hub.client import Hub
from openenv.hub.names import RepoName
from openenv.hub.pulling import pull

FILES = {"openenv.yaml": b"name: go", "server/app.py": b"app = 1\n"}
SPACE = RepoName("ada/go")


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_new_folder_and_an_empty_one(hub: HubServer, tmp_path: Path) -> None:
    commit = hub.add("ada/go", FILES).head
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "deep" / "new", tmp_path / "empty"):
        pulled = pull(SPACE, folder, Hub())
        assert (contents(folder), pulled.commit) == (FILES, commit)
        assert sorted(map(str, pulled.files)) == sorted(FILES)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".openenv")] == []


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_other_repositories(hub: HubServer, tmp_path: Path, kind: str) -> None:
    hub.add("ada/go", FILES, kind)
    pull(RepoName("ada/go", kind), tmp_path / "got", Hub())
    assert contents(tmp_path / "got") == FILES


def test_what_is_there_is_overwritten_on_request_only(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    mine = {"openenv.yaml": "mine", "notes.txt": "mine too"}
    folder = write_files(tmp_path / "go", mine)
    with pytest.raises(ConfigurationError, match=r"There are files in .*--force"):
        pull(SPACE, folder, Hub())
    assert contents(folder) == {path: text.encode() for path, text in mine.items()}
    assert not hub.requests
    pull(SPACE, folder, Hub(), force=True)
    assert contents(folder) == {**FILES, "notes.txt": b"mine too"}


def test_no_link_leads_elsewhere(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    outside = write_files(tmp_path / "outside", {"app.py": "precious", "manifest": "precious"})
    folder = write_files(tmp_path / "go", {"x": ""})
    (folder / "server").symlink_to(outside)
    with pytest.raises(ConfigurationError, match=r"server is a link or a file where a folder is to be"):
        pull(SPACE, folder, Hub(), force=True)
    assert not (folder / "openenv.yaml").exists()
    (folder / "server").unlink()
    (folder / "openenv.yaml").symlink_to(outside / "manifest")
    pull(SPACE, folder, Hub(), force=True)
    assert contents(outside) == {"app.py": b"precious", "manifest": b"precious"}
    assert not (folder / "openenv.yaml").is_symlink()


def test_a_folder_is_no_file_and_a_file_no_folder(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    with pytest.raises(ConfigurationError, match=r"openenv\.yaml is a folder where a file is to be"):
        pull(SPACE, write_files(tmp_path / "a", {"openenv.yaml/x": ""}), Hub(), force=True)
    with pytest.raises(ConfigurationError, match="server is a link or a file where a folder is to be"):
        pull(SPACE, write_files(tmp_path / "b", {"server": ""}), Hub(), force=True)
    with pytest.raises(ConfigurationError, match="is no folder"):
        pull(SPACE, tmp_path / "b" / "server", Hub(), force=True)


def test_what_fails_leaves_the_folder_as_it_was(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    folder = write_files(tmp_path / "go", {"openenv.yaml": "mine"})
    hub.faults.append(Fault(".* /spaces/ada/go/resolve/.*", Answer(403, {"error": "No."}), times=99))
    with pytest.raises(HubError, match="download ada/go"):
        pull(SPACE, folder, Hub(), force=True)
    assert contents(tmp_path / "go") == {"openenv.yaml": b"mine"}
    with pytest.raises(HubError, match="download ada/go"):
        pull(SPACE, tmp_path / "new", Hub())
    assert not (tmp_path / "new").exists()
