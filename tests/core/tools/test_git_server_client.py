"""``GitServerClient``, against a server that has what it reads of Gitea: a list, and repositories with a password."""

import json
import os
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support.needs import require

from openenv.core.exceptions import ConfigurationError, GitServerError
from openenv.core.tools import GitServerClient, RepoInfo

USER, PASSWORD = "ada", "pass word/@:"


class GiteaHandler(SimpleHTTPRequestHandler):
    """Files of bare repositories, which Git can clone, and the list of them."""

    listing: ClassVar[Any] = [{"name": "task", "full_name": "ada/task", "clone_url": "http://host/ada/task.git"}]

    def do_GET(self) -> None:
        if self.path == "/":
            self._send(200, b"Gitea")
        elif self.headers["Authorization"] != "Basic " + b64encode(f"{USER}:{PASSWORD}".encode()).decode():
            self._send(401, b"")
        elif self.path == "/api/v1/user/repos":
            self._send(200, json.dumps(self.listing).encode())
        else:
            super().do_GET()

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("WWW-Authenticate", "Basic realm=gitea")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Stay silent."""


class Served:
    """The server, and the repository on it."""

    def __init__(self, folder: Path) -> None:
        self.handler: type[GiteaHandler] = type("Handler", (GiteaHandler,), {})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(self.handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.bare = folder / USER / "task.git"
        self.work = folder / "work"
        run_git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        run_git(folder, "clone", "--quiet", str(self.bare), str(self.work))
        self.first = self.commit("one")

    def commit(self, text: str) -> str:
        """Push a commit to the repository; return its name."""
        (self.work / "file.txt").write_text(text)
        run_git(self.work, "checkout", "--quiet", "-B", "main")
        run_git(self.work, "add", "file.txt")
        run_git(self.work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", text)
        run_git(self.work, "push", "--quiet", "origin", "main")
        run_git(self.bare, "update-server-info")
        return run_git(self.work, "rev-parse", "HEAD").strip()


def run_git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """The server."""
    require("git")
    served = Served(tmp_path)
    thread = threading.Thread(target=served.server.serve_forever)
    thread.start()
    yield served
    served.server.shutdown()
    served.server.server_close()
    thread.join()


def client_of(served: Served, tmp_path: Path, password: str = PASSWORD) -> GitServerClient:
    client = GitServerClient(served.url, USER, password, workspace_dir=str(tmp_path / "workspace"))
    assert client.wait_for_ready()
    return client


def test_a_workspace_is_cloned_changed_and_put_back(served: Served, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    second = served.commit("two")
    folder = Path(client.clone_to_workspace("task"))
    assert client.workspace_exists("task")
    assert client.get_current_commit("task") == second
    (folder / "file.txt").write_text("changed")
    (folder / "new.txt").write_text("new")
    assert client.reset_workspace("task", served.first)
    assert sorted(path.name for path in folder.iterdir()) == [".git", "file.txt"]
    assert (folder / "file.txt").read_text() == "one"
    third = served.commit("three")
    client.reset_workspace("task")  # of a branch, what the server has now
    assert client.get_current_commit("task") == third
    assert Path(client.clone_to_workspace("task", "other", served.first)).name == "other"
    assert client.get_current_commit("other") == served.first


def test_repositories_are_listed(served: Served, tmp_path: Path) -> None:
    client = client_of(served, tmp_path)
    assert client.list_repositories() == [{**GiteaHandler.listing[0], "description": ""}]
    for listing in ({"message": "no"}, [{"name": "task"}], [1], 1):
        served.handler.listing = listing
        with pytest.raises(GitServerError, match="did not list ada's repositories"):
            client.list_repositories()


def test_commands_have_an_identity_and_leave_the_user_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("git")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    client = GitServerClient("http://gitea.example:3000", USER, PASSWORD, str(tmp_path / "workspace"))
    assert client.execute_git_command("init repo")[0] == 0
    assert client.execute_git_command('commit --allow-empty -m "two words"', "repo")[0] == 0
    assert client.execute_git_command("log -1 --format=%s%ae", "repo")[1].strip() == "two wordsopenenv@local.env"
    assert client.execute_git_command("status", "nowhere") == (
        1,
        "",
        f"Working directory does not exist: {tmp_path}/workspace/nowhere",
    )
    assert client.execute_git_command("log 'x", "repo")[0] == 1
    assert not (tmp_path / "home").exists()
    with pytest.raises(GitServerError, match="leads out of it"):
        client.execute_git_command("init", "../elsewhere")


def test_what_goes_wrong(served: Served, tmp_path: Path) -> None:
    client = client_of(served, tmp_path, password="wrong")
    with pytest.raises(GitServerError, match="Clone failed: "):
        client.clone_to_workspace("task")
    with pytest.raises(GitServerError, match="did not list"):
        client.list_repositories()
    good = client_of(served, tmp_path)
    with pytest.raises(RuntimeError, match="Checkout failed"):  # as the public package raises it
        good.clone_to_workspace("task", commit="nothing")
    with pytest.raises(GitServerError, match="Repository not found in workspace: gone; clone_to_workspace"):
        good.reset_workspace("gone")
    fresh = GitServerClient(served.url, USER, PASSWORD, str(tmp_path))
    with pytest.raises(GitServerError, match="is not ready; call wait_for_ready"):
        fresh.list_repositories()


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    require("git")
    client = GitServerClient("http://127.0.0.1:9", USER, PASSWORD, str(tmp_path))
    assert not client.wait_for_ready(timeout=0)
    for request in (client.list_repositories, lambda: client.clone_to_workspace("task")):
        with pytest.raises(GitServerError, match="did not answer in 0 s: is a Gitea server there"):
            request()
    with pytest.raises(ConfigurationError, match="Expected a Gitea server's address"):
        GitServerClient("gitea:3000", USER, PASSWORD, str(tmp_path))


def test_a_repository_s_description() -> None:
    info = RepoInfo(name="task", url="http://host/ada/task", commit="main", clone_url="http://host/ada/task.git")
    assert info.commit == "main"
