"""Markdown pages as test files: a page with code has one test, such as ``docs/training.md::page``, that follows it.

``tests/support/snippets.py`` says what the blocks of a page mean.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.snippets import Walkthrough, blocks_of

from openenv.core.providers.local_process import LocalProcessProvider

PATTERNS = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "docs/*.md", "tests/journeys/*.md")
"""The pages, as patterns below the root."""

# Pages that speak of a server on port 8000 without starting it mean one that echoes.
_WITH_A_SERVER = {"docs/clients.md", "docs/mcp.md", "docs/operations.md", "docs/serving.md"}
# What pages need beside Python.
_NEEDS = {"docs/neighbours.md": "reasoning-gym", "docs/sandbox.md": "sandbox"}
_JOURNEYS = "tests/journeys/"


def pages_of(root: Path) -> list[Path]:
    """Return the pages below a folder."""
    return [page for pattern in PATTERNS for page in sorted(root.glob(pattern))]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "PageFile | None":
    """Collect a page, also one that is named on the command line; no other Markdown file."""
    if file_path.suffix == ".md" and file_path in pages_of(parent.config.rootpath):
        return PageFile.from_parent(parent, path=file_path)
    return None


class PageFile(pytest.File):
    """A page, whose test needs what the page needs."""

    def collect(self) -> Iterator[pytest.Item]:
        """Make the test, if there is code to run."""
        if any(block.language in ("console", "python") for block in blocks_of(self.path)):
            test = PageTest.from_parent(self, name="page", callobj=follow_page)
            if self.nodeid in _NEEDS:
                test.add_marker(pytest.mark.needs(_NEEDS[self.nodeid]))
            yield test


class PageTest(pytest.Function):
    """A page's test: a function with fixtures, which is not found in a module."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the page for what is found in a report's headings, not where the function is."""
        return self.path, 0, self.nodeid


def follow_page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a page's blocks in an empty folder."""
    page = request.path
    name = str(page.relative_to(request.config.rootpath))
    with _port_of(name) as port, Walkthrough(tmp_path, port).following() as walkthrough:
        monkeypatch.chdir(tmp_path)
        if name.startswith(_JOURNEYS):
            monkeypatch.syspath_prepend(tmp_path)
            monkeypatch.setenv("COLUMNS", "200")
        for block in blocks_of(page):
            walkthrough.follow(block, page)


@contextmanager
def _port_of(name: str) -> Iterator[int]:
    """Yield what takes the place of a page's port 8000: an echo server's, or a free one."""
    if name in _WITH_A_SERVER:
        with LocalProcessProvider("echo", max_sessions=80) as provider:
            provider.wait_for_ready()
            yield int(provider.base_url.rpartition(":")[2])
    else:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        yield port
