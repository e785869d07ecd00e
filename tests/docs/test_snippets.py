"""Pages are read with all their blocks, and say of what is not run why; ``tests/support/pages.py`` runs the others."""

import re
from pathlib import Path

import pytest
from tests.support.pages import pages_of
from tests.support.snippets import Block, Walkthrough, blocks_of

from openenv.cli.__main__ import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = pages_of(ROOT)


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


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
