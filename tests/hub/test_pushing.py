"""Publishing a staged environment on a Hub that does what Hubs do, and what they do at times."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import write_files
from tests.support.services.hub_server import MAX_LARGE_BYTES, Answer, Fault, HubServer

from openenv.core.exceptions import HubError
from openenv.hub.client import Hub
from openenv.hub.pushing import Push, calls_of, push

# The library's own way of uploading large files without Xet.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

FILES = {"README.md": "---\nsdk: docker\n---\n# Go\n", "openenv.yaml": "name: go", "server/app.py": "app = 1\n"}
COMMIT = "POST /api/spaces/ada/go/commit/main"
LARGE = b"\0large" * 1000


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    folder = write_files(tmp_path / "staged", FILES)
    (folder / "data.bin").write_bytes(LARGE)
    return folder


def published(hub: HubServer, repo_id: str = "ada/go") -> dict[str, bytes]:
    return {path: content for path, content in hub.space(repo_id).files.items() if path != ".gitattributes"}


def contents(staged: Path) -> dict[str, bytes]:
    files = (path for path in staged.rglob("*") if path.is_file())
    return {path.relative_to(staged).as_posix(): path.read_bytes() for path in files}


def test_a_new_space_is_made_with_its_settings_and_its_files_in_one_commit(hub: HubServer, staged: Path) -> None:
    what = Push(staged, "ada/go", "Push go", True, "cpu-upgrade", {"LEVEL": "easy"}, {"KEY": "hush"})
    pushed = push(what, Hub())
    space = hub.space("ada/go")
    assert (space.private, space.hardware) == (True, "cpu-upgrade")
    assert (space.variables, space.secrets) == ({"LEVEL": "easy", "OPENENV_AUTH": "none"}, {"KEY": "hush"})
    assert published(hub) == contents(staged)
    assert (space.messages, len(space.commits)) == (["Push go"], 2)
    assert (pushed.page, pushed.changed, pushed.opened) == (f"{hub.url}/spaces/ada/go", True, True)


def test_pushed_again_nothing_changes(hub: HubServer, staged: Path) -> None:
    what = Push(staged, "ada/go", variables={"LEVEL": "easy"})
    push(what, Hub())
    hub.requests.clear()
    pushed = push(what, Hub())
    assert (pushed.changed, pushed.opened) == (False, False)
    assert not [line for line in hub.lines() if line == COMMIT or line.startswith(("PUT", "POST /api/spaces/ada/go/v"))]


def test_only_what_differs_is_sent(hub: HubServer, staged: Path) -> None:
    hub.add("ada/go", {**contents(staged), "README.md": b"old", "gone.py": b"x"}, variables={"LEVEL": "easy", "B": "1"})
    push(Push(staged, "ada/go", variables={"LEVEL": "easy", "B": "2"}, hardware="t4-small", private=True), Hub())
    space = hub.space("ada/go")
    assert space.variables == {"LEVEL": "easy", "B": "2", "OPENENV_AUTH": "none"}
    assert (space.private, space.hardware) == (True, "t4-small")
    sent = [request.json["key"] for request in hub.requests if request.line == "POST /api/spaces/ada/go/variables"]
    assert sent == ["B", "OPENENV_AUTH"]
    commit = next(request for request in hub.requests if request.line == COMMIT)
    assert len(commit.body.splitlines()) == 2  # a header, and the README
    assert published(hub) == {**contents(staged), "gone.py": b"x"}


@pytest.mark.parametrize(
    ("settings", "there"),
    [
        ({"variables": {"OPENENV_AUTH": "token"}}, {}),
        ({"secrets": {"OPENENV_TOKEN": "t"}}, {}),
        ({}, {"secrets": {"OPENENV_TOKEN": "t"}}),
        ({}, {"variables": {"OPENENV_AUTH": "token"}}),
    ],
)
def test_a_space_that_says_who_may_play_is_not_opened(
    hub: HubServer, staged: Path, settings: dict[str, Any], there: dict[str, Any]
) -> None:
    if there:
        hub.add("ada/go", {}, **there)
    assert not push(Push(staged, "ada/go", **settings), Hub()).opened
    assert hub.space("ada/go").variables.get("OPENENV_AUTH", "token") == "token"


def test_files_are_deleted_by_glob(hub: HubServer, staged: Path) -> None:
    there = {"old/a.py": b"", "old/b/c.py": b"", "keep.py": b"", ".gitattributes": b"x", "server/app.py": b"old"}
    hub.add("ada/go", there)
    push(Push(staged, "ada/go", delete=("old/*", "*.gitattributes", "server/*")), Hub())
    assert hub.space("ada/go").files == {**contents(staged), "keep.py": b"", ".gitattributes": b"x"}


def test_a_proposal_changes_no_setting(hub: HubServer, staged: Path) -> None:
    space = hub.add("someone/go", {"README.md": b"theirs"})
    pushed = push(Push(staged, "someone/go", create_pr=True), Hub())
    assert pushed.pull_request == f"{hub.url}/spaces/someone/go/discussions/1"
    assert space.pull_requests == [{**contents(staged)}]
    assert (space.files, space.variables) == ({"README.md": b"theirs"}, {})


def test_a_proposal_needs_a_space(hub: HubServer, staged: Path) -> None:
    with pytest.raises(HubError, match="push without --create-pr first"):
        push(Push(staged, "ada/go", create_pr=True), Hub())
    assert not hub.repos


def test_what_a_dry_run_says_is_what_is_asked(hub: HubServer, staged: Path) -> None:
    settings: dict[str, Any] = {"variables": {"A": "1"}, "secrets": {"KEY": "hush"}, "hardware": "t4-small"}
    what = Push(staged, "ada/go", private=True, delete=("old/*",), **settings)
    said = {" ".join(line.split()[:2]).partition("?")[0] for line in calls_of(what) if "/api/" in line}
    push(what, Hub())
    hub.add("ada/go", {"old/x": b""})
    push(what, Hub())
    asked = {line for line in hub.lines() if "/api/" in line}
    assert said == asked - {"GET /api/agent-harnesses"}  # which the library does once in a while, for itself
    assert "hush" not in "".join(calls_of(what)) + repr(what)


def test_a_dry_run_of_a_proposal(staged: Path) -> None:
    lines = list(calls_of(Push(staged, "ada/go", create_pr=True)))
    assert not any("create {" in line or "variables" in line for line in lines)
    assert any(f"{COMMIT}?create_pr=1" in line for line in lines)


def test_others_spaces(hub: HubServer, staged: Path) -> None:
    with pytest.raises(HubError, match=r"create the Space bob/go: your token may not.*403.*namespace") as caught:
        push(Push(staged, "bob/go"), Hub())
    assert caught.value.status == 403


def test_a_token_that_is_none(hub: HubServer, staged: Path) -> None:
    with pytest.raises(HubError, match=r"create the Space ada/go: the Hub does not know your token"):
        push(Push(staged, "ada/go"), Hub(token="hf_other"))


@pytest.mark.parametrize("answer", [Answer(500, {"error": "Oops"}), Answer(429, {}, {"Retry-After": "0"}), None])
@pytest.mark.parametrize("done", [False, True])
def test_a_commit_whose_answer_fails_once_is_there_once(
    hub: HubServer, staged: Path, impatient: None, answer: Answer | None, done: bool
) -> None:
    hub.faults.append(Fault(COMMIT, answer, done=done))
    push(Push(staged, "ada/go"), Hub())
    assert published(hub) == contents(staged)
    assert len(hub.space("ada/go").messages) == 1


def test_a_space_made_without_an_answer_is_made_once(hub: HubServer, staged: Path, impatient: None) -> None:
    hub.faults.append(Fault("POST /api/repos/create", None, done=True))
    push(Push(staged, "ada/go", private=True), Hub())
    assert (hub.space("ada/go").private, published(hub)) == (True, contents(staged))


def test_a_proposal_is_not_sent_twice(hub: HubServer, staged: Path, impatient: None) -> None:
    space = hub.add("ada/go", {})
    hub.faults.append(Fault(COMMIT, None, done=True))
    with pytest.raises(HubError, match=r"can't be reached.*may be open all the same; see http.*/spaces/ada/go/discuss"):
        push(Push(staged, "ada/go", create_pr=True), Hub())
    assert len(space.pull_requests) == 1


@pytest.mark.parametrize("status", [409, 412])
def test_somebody_else_was_faster(hub: HubServer, staged: Path, status: int) -> None:
    hub.faults.append(Fault(COMMIT, Answer(status, {"error": "A commit has happened since."})))
    with pytest.raises(HubError, match=rf"upload to ada/go: .*status {status}.*A commit has happened since"):
        push(Push(staged, "ada/go"), Hub())
    assert published(hub) == {}


def test_a_cut_in_the_upload_of_a_large_file(hub: HubServer, staged: Path) -> None:
    hub.faults.append(Fault(f"PUT /large/{hashlib.sha256(LARGE).hexdigest()}", None))
    push(Push(staged, "ada/go"), Hub())
    assert published(hub) == contents(staged)


def test_a_file_too_large_for_the_hub(hub: HubServer, staged: Path) -> None:
    (staged / "huge.bin").write_bytes(b"\0" * (MAX_LARGE_BYTES + 1))
    with pytest.raises(HubError, match=r"(?s)upload to ada/go: .*This file is larger than allowed"):
        push(Push(staged, "ada/go"), Hub())
    assert published(hub) == {}


def test_a_readme_that_the_hub_does_not_take(hub: HubServer, staged: Path) -> None:
    (staged / "README.md").write_text("# Nothing of a Space")
    with pytest.raises(HubError, match=r'(?s)upload to ada/go: .*README\.md.*"sdk" is required'):
        push(Push(staged, "ada/go"), Hub())
