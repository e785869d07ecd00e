"""Parts of an environment's README: its bullets, its example and its sections."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from openenv.core.documents import open_regular

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.*)$")
_FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_BULLET = re.compile(r"^[-*] \*\*(.+?)\*\*:? *(.*)$")
_MAX_BYTES = 1024 * 1024
_SENTENCE = re.compile(r"[^.!?]*(?:[.!?](?!\s|$)[^.!?]*)*[.!?]")
_LONGEST_SENTENCE = 200
_NO_TEXT = ("#", "|", "`", "<", "!", "- ", "* ", "1.")


@dataclass(frozen=True)
class Readme:
    """Parsed README.

    Attributes:
        summary: Its first paragraph; empty where there is none.
        facts: Texts of its bullets that begin with a word in bold, by that word in small letters: ``reward``, ``end``.
        example: Its first block of Python; empty where there is none.
        sections: The text under each heading, by the heading in small letters.
    """

    summary: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    example: str = ""
    sections: dict[str, str] = field(default_factory=dict)


def read_readme(folder: Path) -> Readme:
    """Parse the README of a folder; an empty one where there is none."""
    file = folder / "README.md"
    if not file.is_file():
        return Readme()
    with open_regular(file) as stream:
        return parse_readme(stream.read(_MAX_BYTES).decode(errors="replace"))


def described_by_readme(folder: Path) -> str:
    """Return the first sentence of a folder's README; empty where there is none."""
    summary = read_readme(folder).summary
    sentence = _SENTENCE.match(summary)
    return (sentence[0] if sentence else summary)[:_LONGEST_SENTENCE].strip()


def parse_readme(text: str) -> Readme:
    r"""Parse a README.

    Example:
        >>> parse_readme("# Go\n\nSurround stones.\n\n- **Reward**: 1.0 for\n  a win.\n").facts
        {'reward': '1.0 for a win.'}
    """
    text = _FRONT_MATTER.sub("", text)
    example = _FENCE.search(text)
    return Readme(_summary(text), _facts(text), example[1].strip() if example else "", _sections(text))


def _summary(text: str) -> str:
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return next((paragraph for paragraph in paragraphs if paragraph and not paragraph.startswith(_NO_TEXT)), "")


def _facts(text: str) -> dict[str, str]:
    facts: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        if bullet is not None:
            name = bullet[1].rstrip(":").lower()
            facts.setdefault(name, [bullet[2]])
        elif name and line.startswith("  ") and not line.lstrip().startswith(("- ", "* ")):
            facts[name].append(line.strip())
        else:
            name = ""
    return {name: " ".join(filter(None, lines)) for name, lines in facts.items()}


def _sections(text: str) -> dict[str, str]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading is not None:
            lines = sections.setdefault(heading[1].strip().lower(), [])
        else:
            lines.append(line)
    return {heading: "\n".join(lines).strip() for heading, lines in sections.items()}
