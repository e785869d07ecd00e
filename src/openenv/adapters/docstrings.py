"""Docstrings of environments of other libraries, which are written as Markdown."""

import re

_HEADING = re.compile(r"^\s*#+\s*(.*?)\s*$")
_NO_TEXT = ("#", "|", "`", "<", "!", ":")


def section(doc: str, heading: str) -> str:
    r"""Return the text under a heading; empty where there is no such heading.

    Example:
        >>> section("A game.\n\n## Action Space\n- 0: left\n- 1: right\n\n## Rewards\n1", "Action Space")
        '- 0: left\n- 1: right'
    """
    lines: list[str] = []
    inside = False
    for line in doc.splitlines():
        found = _HEADING.match(line)
        if found is None and inside:
            lines.append(line)
        elif found is not None:
            inside = found[1].lower() == heading.lower()
    return "\n".join(lines).strip()


def first_paragraph(doc: str) -> str:
    r"""Return the first paragraph that is text, not a heading, a table, an image or a link to elsewhere.

    Example:
        >>> first_paragraph("# Go\n\n| Agents | 2 |\n\nTwo players\nsurround stones.\n\nMore.")
        'Two players surround stones.'
    """
    for paragraph in re.split(r"\n\s*\n", doc.strip()):
        text = " ".join(paragraph.split())
        if text and not text.startswith(_NO_TEXT) and "<a href" not in text:
            return text
    return ""
