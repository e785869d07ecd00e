"""Downloading a repository, at one commit."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.services.hub_server import Answer, Fault, HubServer

from openenv.core.exceptions import ConfigurationError, HubError
from openenv.hub.client import Hub
from openenv.hub.downloading import check_paths, download_space

FILES = {"openenv.yaml": b"name: go", "server/app.py": b"app = 1\n", "data.bin": b"\0" * 50_000, "empty": b""}
ESCAPES = ["../x", "a/../../x", "/etc/x", "a//x", "./x", "C:/x", "a\\..\\x", "x\0"]
ESCAPES += [".git/config", ".GIT/x", "a/.git/x", ".cache/x"]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_space_is_a_folder_whose_name_can_be_a_packages(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/2048-go.v2", FILES)
    folder = download_space("ada/2048-go.v2")
    assert (folder.name, contents(folder)) == ("_2048_go_v2", FILES)
    assert folder.is_relative_to(tmp_path / ".cache" / "openenv" / "spaces")


def test_the_same_commit_is_downloaded_once(hub: HubServer, tmp_path: Path) -> None:
    space = hub.add("ada/go", FILES)
    first = download_space("ada/go", hub=Hub(), cache=tmp_path / "cache")
    hub.requests.clear()
    assert download_space(f"{hub.url}/spaces/ada/go", cache=tmp_path / "cache") == first
    assert hub.lines() == ["GET /api/spaces/ada/go"]
    old, space.head = space.head, "f" * 40
    space.commits[space.head] = {"new": b""}
    assert contents(download_space("ada/go", cache=tmp_path / "cache")) == {"new": b""}
    assert download_space("ada/go", old, cache=tmp_path / "cache") == first
    assert contents(first) == FILES


def test_what_is_not_there(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    hub.add("bob/hidden", FILES, private=True)
    with pytest.raises(HubError, match=r"find ada/none: there is none of that name, or it is private"):
        download_space("ada/none")
    with pytest.raises(HubError, match=r"find ada/go at v9: there is no such branch, tag or commit"):
        download_space("ada/go", "v9")
    with pytest.raises(HubError, match=r"find bob/hidden"):
        download_space("bob/hidden", hub=Hub(token="hf_other"))
    with pytest.raises(ConfigurationError, match="the owner is missing"):
        download_space("go")
    with pytest.raises(ConfigurationError, match="which is a dataset"):
        download_space(f"{hub.url}/datasets/ada/go")


@pytest.mark.parametrize("path", ESCAPES)
def test_a_file_that_would_lie_elsewhere_stops_it_all(hub: HubServer, tmp_path: Path, path: str) -> None:
    hub.add("eve/go", {**FILES, path: b"boo"})
    with pytest.raises(HubError, match=r"eve/go has a file with the path .*Nothing was downloaded"):
        download_space("eve/go", cache=tmp_path / "cache")
    assert contents(tmp_path / "cache") == {}
    assert not any("/resolve/" in line for line in hub.lines())


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b.py", "..a", "...", "c:"]), min_size=1, max_size=5))
def test_what_passes_stays_in_the_folder(parts: list[str]) -> None:
    path = "/".join(parts)
    try:
        check_paths([path], "eve/go")
    except HubError:
        return
    assert Path("/folder", path).resolve().is_relative_to("/folder")
    assert Path("/folder", path).resolve() != Path("/folder")


def test_a_cut_in_the_middle_is_mended(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    hub.faults.append(Fault(r"GET /spaces/ada/go/resolve/.*data\.bin", None))
    assert contents(download_space("ada/go", cache=tmp_path)) == FILES


def test_what_fails_leaves_nothing_behind(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    hub.faults.append(Fault(r".* /spaces/ada/go/resolve/.*data\.bin", Answer(403, {"error": "No."}), times=99))
    with pytest.raises(HubError, match=r"download ada/go: your token may not do that.*status 403"):
        download_space("ada/go", cache=tmp_path / "cache")
    assert contents(tmp_path / "cache") == {}
    hub.faults.clear()
    assert contents(download_space("ada/go", cache=tmp_path / "cache")) == FILES


def test_several_at_once(hub: HubServer, tmp_path: Path) -> None:
    hub.add("ada/go", FILES)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(download_space("ada/go", cache=tmp_path / "cache")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert contents(found[0]) == FILES
    assert [entry.name for entry in found[0].parent.iterdir()] == ["go"]
