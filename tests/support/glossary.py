"""The tables of ``docs/glossary.md``, and where text uses a word."""

import re
from pathlib import Path

_PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
UNUSED = ("Words that are not used", "Words that the client does not use", "Words that training does not use")
"""The headings of the tables of words that have a better one."""
UNUSED_ELSEWHERE = (UNUSED[0], "Words that commands and other packages do not use")
"""The headings of the tables for packages other than those of the server and the client."""


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, without its head."""
    section = _PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def unused_words(heading: str) -> list[str]:
    """Return the words and phrases of a table of words that have a better one."""
    return [word for row in rows(heading) for word in row[0].split(", ")]


def words_of(text: str) -> str:
    """Return a name or a text as words: ``_LastSeat`` and ``last_seat`` are both `` last seat ``."""
    return f" {' '.join(re.findall(r'[A-Z]?[a-z]+|[A-Z]+(?![a-z])', text)).lower()} "


def uses(word: str, words: str) -> int:
    """Count a word or phrase, or its plural, in what ``words_of`` returns."""
    return words.count(f" {word} ") + words.count(f" {word}s ")
