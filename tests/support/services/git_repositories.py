"""Git repositories on disk, to be fetched as if they were elsewhere."""

import os
import subprocess
from pathlib import Path

from tests.support.needs import require

# Whatever the machine's own settings are: who commits, hooks, signatures.
_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; return what it printed."""
    require("git")
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], env={**os.environ, **_VARIABLES}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit_all(folder: Path) -> str:
    """Make a folder a repository if it is none, and commit all that is in it; return the commit's name."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch", "main")
        # As the large sites do, which let one fetch any commit.
        git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A change")
    return git(folder, "rev-parse", "HEAD")
