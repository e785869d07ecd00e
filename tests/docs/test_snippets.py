"""Every page's code runs as it stands there, and prints what the page says it prints."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.snippets import Block, Walkthrough, blocks_of

from openenv.cli.__main__ import COMMANDS
from openenv.core.providers.local_process import LocalProcessProvider

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
PAGES_WITH_CODE = [page for page in PAGES if any(block.language in ("console", "python") for block in blocks_of(page))]
# Pages that speak of a server on port 8000 without starting it mean one that echoes.
PAGES_WITH_A_SERVER = {"clients.md", "mcp.md", "operations.md", "serving.md"}
# What pages need beside Python.
NEEDS = {"neighbours.md": "reasoning-gym", "sandbox.md": "sandbox"}


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def echo_port() -> Iterator[int]:
    with LocalProcessProvider("echo", max_sessions=80) as provider:
        provider.wait_for_ready()
        yield int(provider.base_url.rpartition(":")[2])


@pytest.fixture
def port(request: pytest.FixtureRequest, page: Path) -> int:
    """What takes the place of a page's port 8000: an echo server's, or a free one."""
    if page.name in PAGES_WITH_A_SERVER:
        served: int = request.getfixturevalue("echo_port")
        return served
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.needs(NEEDS[page.name])] if page.name in NEEDS else [])
        for page in PAGES_WITH_CODE
    ],
    ids=names,
)
def test_a_page_can_be_followed_to_its_end(
    page: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Walkthrough(tmp_path, port).following() as walkthrough:
        for block in blocks_of(page):
            walkthrough.follow(block, page)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_for_a_person_to_choose_from_exist(page: Path) -> None:
    text = "".join(block.text for block in blocks_of(page) if block.language == "bash")

    assert set(re.findall(r"^openenv (\w[\w-]*)", text, re.MULTILINE)) <= COMMANDS.keys()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE)) <= targets


def test_nothing_is_left_out_without_a_reason() -> None:
    left_out = {f"{page.name}:{block.line}": block.note for page in PAGES for block in blocks_of(page) if block.note}

    assert all(re.fullmatch("keeps running|fails|not run: .{10,}", note) for note in left_out.values()), left_out


def test_the_pages_are_seen_with_all_their_blocks() -> None:
    fences = {page: page.read_text(encoding="utf-8").count("\n```\n") for page in PAGES}
    directives = {page: page.read_text(encoding="utf-8").count("\n```{") for page in PAGES}
    blocks = {page: len(blocks_of(page)) for page in PAGES}

    for page in PAGES:
        # A page that begins with a directive has one that the pattern above does not count.
        at_the_start = page.read_text(encoding="utf-8").startswith("```{")
        assert blocks[page] + directives[page] + at_the_start == fences[page], page
    assert blocks[ROOT / "README.md"] >= 7


def follow_text(text: str, tmp_path: Path) -> list[Block]:
    """Follow a page made of this text, and return its blocks."""
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with Walkthrough(tmp_path, 0).following() as walkthrough:
        for block in blocks_of(page):
            walkthrough.follow(block, page)
    return blocks_of(page)


def test_wrong_output_is_noticed(tmp_path: Path) -> None:
    page = "```python\n# hello.py\nprint('hello')\n```\n\n```console\n$ python hello.py\n{}\n```\n"

    follow_text(page.format("hello"), tmp_path)
    with pytest.raises(AssertionError):
        follow_text(page.format("good day"), tmp_path)


def test_code_that_fails_is_noticed_unless_it_is_left_out(tmp_path: Path) -> None:
    page = "```python\nnumber = 1\n```\n\n{}```python\nassert number == 2\n```\n"

    with pytest.raises(AssertionError):
        follow_text(page.format(""), tmp_path)
    assert follow_text(page.format("<!-- not run: shows an error -->\n"), tmp_path)[1].is_left_out
