"""Repositories are fetched from real ones, by every way to name a state of them."""

import socket
from pathlib import Path

import pytest
from tests.support.environment_folders import write_files
from tests.support.services.git_repositories import commit_all, git

from openenv.core.providers.venv.git import clone, is_git_url
from openenv.core.exceptions import ConfigurationError, ProviderError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return write_files(tmp_path / "served" / "some-env.git", {"VERSION": "1", "envs/inner/VERSION": "inner"})


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "clones"
    folder.mkdir()
    return folder


def test_the_newest_state_is_fetched_without_its_history(repository: Path, target: Path) -> None:
    commit_all(repository)
    write_files(repository, {"VERSION": "2"})
    commit_all(repository)

    folder = clone(f"git+{repository.as_uri()}", target)

    assert folder == target / "some-env"
    assert (folder / "VERSION").read_text() == "2"
    assert git(folder, "rev-list", "--count", "HEAD") == "1"


def test_a_branch_a_tag_and_a_commit_can_be_named(repository: Path, target: Path) -> None:
    first = commit_all(repository)
    git(repository, "tag", "v1")
    git(repository, "branch", "old/one")
    write_files(repository, {"VERSION": "2"})
    commit_all(repository)

    for number, revision in enumerate(["v1", "old/one", first]):
        parent = target / str(number)
        parent.mkdir()
        folder = clone(f"git+{repository.as_uri()}@{revision}", parent)
        assert (folder / "VERSION").read_text() == "1"


def test_a_folder_of_the_repository_can_be_named(repository: Path, target: Path) -> None:
    commit_all(repository)
    folder = clone(f"git+{repository.as_uri()}@main#subdirectory=envs/inner", target)
    assert (folder / "VERSION").read_text() == "inner"


@pytest.mark.parametrize("path", ["../clones", "/etc", "envs/other", "VERSION"])
def test_a_folder_elsewhere_is_refused(repository: Path, target: Path, path: str) -> None:
    commit_all(repository)
    with pytest.raises(ConfigurationError, match="Expected a folder of the repository"):
        clone(f"git+{repository.as_uri()}#subdirectory={path}", target)


def test_what_can_not_be_fetched_says_what_git_says(repository: Path, target: Path) -> None:
    commit_all(repository)
    with pytest.raises(ProviderError, match=r"could not fetch .*no-such-branch(?s:.*)couldn't find remote ref"):
        clone(f"git+{repository.as_uri()}@no-such-branch", target)
    with pytest.raises(ProviderError, match=r"nowhere'? does not (exist|appear)"):
        clone(f"git+{(repository.parent / 'nowhere').as_uri()}", target)


def test_a_repository_whose_hook_this_runs_in_is_left_alone(
    repository: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_all(repository)
    own = write_files(tmp_path / "own", {"mine": "1"})
    before = commit_all(own)
    monkeypatch.setenv("GIT_DIR", str(own / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(own / ".git" / "index"))

    folder = clone(f"git+{repository.as_uri()}", target)

    assert (folder / "VERSION").read_text() == "1"
    assert git(own, "rev-parse", "HEAD") == before
    assert git(own, "symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.needs("git")
def test_a_token_in_the_address_is_in_no_error(target: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    with pytest.raises(ProviderError, match=rf"could not fetch git\+http://127\.0\.0\.1:{nobody}/env\.git@v1") as error:
        clone(f"git+http://me:s3cret@127.0.0.1:{nobody}/env.git@v1", target)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("url", ["git+https://example.invalid", "git+https://example.invalid/a/..", "git+file:///.git"])
def test_an_address_of_no_repository_is_refused(target: Path, url: str) -> None:
    with pytest.raises(ConfigurationError, match="ends in a repository's name"):
        clone(url, target / "inner")
    assert not list(target.iterdir())


@pytest.mark.needs("git")
def test_an_address_is_no_option_of_git(repository: Path, target: Path) -> None:
    with pytest.raises(ProviderError, match="could not fetch"):
        clone(f"git+--upload-pack=touch${{IFS}}{target}/hacked;/{repository}", target)
    assert not (target / "hacked").exists()


def test_a_machine_without_git_is_told_so(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(target))
    with pytest.raises(ProviderError, match="needs git, which is not installed"):
        clone("git+https://example.invalid/x", target)


def test_only_what_begins_so_is_a_repository() -> None:
    assert [
        is_git_url(path) for path in ("git+ssh://git@example.com/a/b", "https://example.com/a", "git", "./git+x")
    ] == [
        True,
        False,
        False,
        False,
    ]
