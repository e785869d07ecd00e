"""Repositories of a Gitea server, as the workspaces of episodes."""

import base64
import os
import shlex
import shutil
import subprocess
import tempfile
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import ProxyHandler, Request, build_opener

from openenv.core.addresses import is_on_this_machine
from openenv.core.documents import parse_json
from openenv.core.exceptions import ConfigurationError, GitServerError

_REQUEST_TIMEOUT_S = 5.0
_POLL_S = 0.2
_COMMAND_TIMEOUT_S = 300.0
_NO_SUCH_FOLDER = 1
# No other configuration is read, so that neither the user's nor the machine's changes what an episode sees.
_SETTINGS = """\
[user]
    name = OpenEnv
    email = openenv@local.env
[init]
    defaultBranch = main
[advice]
    detachedHead = false
[credential]
    helper = store --file={credentials}
"""


@dataclass
class RepoInfo:
    """A repository, and the commit that an episode begins with.

    Attributes:
        name: Its name on the server.
        url: Address of its page.
        commit: Commit or branch.
        clone_url: Address to clone from.
    """

    name: str
    url: str
    commit: str
    clone_url: str


class GitServerClient:
    """Clones repositories of one Gitea server into a folder, and puts them back to a commit between episodes.

    The password goes into a file that only this user can read, in a temporary folder that ends with the client; the
    user's own Git configuration is neither read nor written.

    Args:
        gitea_url: Address of the server, ``http://`` or ``https://``.
        username: User whose repositories they are.
        password: The user's password or token.
        workspace_dir: Folder of the clones; made if it is not there.

    Attributes:
        is_ready: Whether the server has answered ``wait_for_ready``.

    Raises:
        ConfigurationError: The address is none, or Git is not installed.

    Example::

        client = GitServerClient("http://localhost:3000", "openenv", password)
        client.wait_for_ready()
        client.clone_to_workspace("task-repository", commit="main")
        client.execute_git_command("status", "task-repository")
        client.reset_workspace("task-repository", commit="main")
    """

    def __init__(self, gitea_url: str, username: str, password: str, workspace_dir: str = "/workspace") -> None:
        if urlsplit(gitea_url).scheme not in ("http", "https"):
            raise ConfigurationError(f"Expected a Gitea server's address, as in http://host:3000, got {gitea_url!r}.")
        if shutil.which("git") is None:
            raise ConfigurationError("GitServerClient runs git, which is not installed: apt-get install git")
        self.gitea_url = gitea_url.rstrip("/")
        self.username = username
        self.workspace_dir = Path(workspace_dir)
        self.workspace_dir.mkdir(parents=True, exist_ok=True)
        self.is_ready = False
        self._waited_s: float | None = None
        self._authorization = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
        folder = Path(tempfile.mkdtemp(prefix="openenv-git-"))  # readable by this user only
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._environment = _git_environment(folder, _with_password(self.gitea_url, username, password))

    def wait_for_ready(self, timeout: float = 30) -> bool:
        """Wait until the server answers.

        Args:
            timeout: Seconds to wait.

        Returns:
            Whether it answered.
        """
        end = time.monotonic() + timeout
        while not self.is_ready:
            self.is_ready = self._answers()
            if not self.is_ready:
                if time.monotonic() >= end:
                    self._waited_s = timeout
                    return False
                time.sleep(_POLL_S)
        return True

    def list_repositories(self) -> list[dict[str, str]]:
        """Return the user's repositories: of each ``name``, ``full_name``, ``clone_url`` and ``description``.

        Raises:
            GitServerError: The server was not waited for, did not answer, refused, or answered something else.
        """
        self._check_ready()
        keys = ("name", "full_name", "clone_url")
        try:
            listed = parse_json(self._get("/api/v1/user/repos"))
            return [{**{key: each[key] for key in keys}, "description": each.get("description", "")} for each in listed]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise GitServerError(f"{self.gitea_url} did not list {self.username}'s repositories: {error!r}") from error

    def clone_to_workspace(self, repo_name: str, target_dir: str | None = None, commit: str = "main") -> str:
        """Clone a repository afresh; a folder that is there is replaced.

        Args:
            repo_name: The repository.
            target_dir: Its folder in the workspace; by default the repository's name.
            commit: Commit or branch to check out.

        Returns:
            The folder.

        Raises:
            GitServerError: The server was not waited for, or Git failed.
        """
        self._check_ready()
        folder = self._folder(target_dir or repo_name)
        shutil.rmtree(folder, ignore_errors=True)
        address = f"{self.gitea_url}/{quote(self.username)}/{quote(repo_name)}.git"
        self._git("Clone", self.workspace_dir, "clone", "--quiet", "--", address, str(folder))
        self._git("Checkout", folder, "checkout", "--quiet", commit, "--")
        return str(folder)

    def reset_workspace(self, repo_name: str, commit: str = "main") -> bool:
        """Put a clone back to a commit, and remove what Git does not track.

        Args:
            repo_name: The clone's folder in the workspace.
            commit: Commit or branch; of a branch, what the server has now, if it can be reached.

        Returns:
            ``True``.

        Raises:
            GitServerError: There is no such clone, or Git failed.
        """
        folder = self._clone(repo_name)
        self._run(folder, "fetch", "--quiet", "--all")  # a commit that is there needs no server
        remote = f"origin/{commit}"
        is_branch = self._run(folder, "rev-parse", "--verify", "--quiet", f"{remote}^{{commit}}").returncode == 0
        self._git("Checkout", folder, "checkout", "--quiet", "--force", commit, "--")
        self._git("Reset", folder, "reset", "--quiet", "--hard", remote if is_branch else commit, "--")
        self._git("Clean", folder, "clean", "--quiet", "-ffdx")
        return True

    def execute_git_command(self, command: str, working_dir: str = "") -> tuple[int, str, str]:
        """Run a Git command in the workspace.

        Args:
            command: The command without ``git``; quoted as for a shell, but no shell reads it.
            working_dir: Folder in the workspace.

        Returns:
            Exit status, standard output and standard error.
        """
        folder = self._folder(working_dir)
        if not folder.is_dir():
            return _NO_SUCH_FOLDER, "", f"Working directory does not exist: {folder}"
        try:
            done = self._run(folder, *shlex.split(command))
        except ValueError as error:  # a quotation mark without its other
            return _NO_SUCH_FOLDER, "", f"{command!r} can't be split into words: {error}"
        return done.returncode, done.stdout, done.stderr

    def get_current_commit(self, repo_name: str) -> str:
        """Return the commit that a clone is at.

        Raises:
            GitServerError: There is no such clone, or it has no commit.
        """
        return self._git("Reading the commit", self._clone(repo_name), "rev-parse", "--verify", "HEAD").strip()

    def workspace_exists(self, repo_name: str) -> bool:
        """Say whether there is a folder of this name in the workspace."""
        return self._folder(repo_name).exists()

    def _check_ready(self) -> None:
        if self.is_ready:
            return
        if self._waited_s is not None:
            raise GitServerError(f"{self.gitea_url} did not answer in {self._waited_s:g} s: is a Gitea server there?")
        raise GitServerError(f"{self.gitea_url} is not ready; call wait_for_ready() first.")

    def _folder(self, name: str) -> Path:
        folder = (self.workspace_dir / name).resolve()
        if not folder.is_relative_to(self.workspace_dir.resolve()):
            raise GitServerError(f"Expected a folder in {self.workspace_dir}, got {name!r}, which leads out of it.")
        return folder

    def _clone(self, name: str) -> Path:
        folder = self._folder(name)
        if not folder.is_dir():
            raise GitServerError(f"Repository not found in workspace: {name}; clone_to_workspace({name!r}) brings it.")
        return folder

    def _answers(self) -> bool:
        try:
            self._get("/")
        except (OSError, ValueError):
            return False
        return True

    def _get(self, path: str) -> bytes:
        request = Request(f"{self.gitea_url}{path}", headers={"Authorization": self._authorization})  # noqa: S310
        opener = build_opener(ProxyHandler({})) if is_on_this_machine(self.gitea_url) else build_opener()
        try:
            with opener.open(request, timeout=_REQUEST_TIMEOUT_S) as answer:
                body: bytes = answer.read()
                return body
        except URLError as error:
            raise OSError(str(error.reason)) from error

    def _git(self, what: str, folder: Path, *arguments: str) -> str:
        done = self._run(folder, *arguments)
        if done.returncode != 0:
            raise GitServerError(f"{what} failed: {done.stderr.strip()}")
        return done.stdout

    def _run(self, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(  # noqa: S603  # a list of words, which no shell reads
                ["git", *arguments],  # noqa: S607
                check=False,
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_COMMAND_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise GitServerError(f"git {arguments[0]} did not end within {_COMMAND_TIMEOUT_S:g} s.") from error


def _git_environment(folder: Path, address: str) -> dict[str, Any]:
    """Write Git's configuration and the password into a folder; return the variables with which Git reads them."""
    credentials, settings = folder / "credentials", folder / "config"
    credentials.touch(mode=0o600)
    credentials.write_text(f"{address}\n", encoding="utf-8")
    settings.write_text(_SETTINGS.format(credentials=shlex.quote(str(credentials))), encoding="utf-8")
    own = {"GIT_CONFIG_GLOBAL": str(settings), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    return {**os.environ, **own}


def _with_password(address: str, username: str, password: str) -> str:
    parts = urlsplit(address)
    where = f"{quote(username, safe='')}:{quote(password, safe='')}@{parts.netloc.rpartition('@')[2]}"
    return urlunsplit(parts._replace(netloc=where, path="", query="", fragment=""))
