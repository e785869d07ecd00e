"""Changes of a push to a Dockerfile: its base image, and whether the server shows a start page."""

import re
from collections.abc import Iterator
from typing import NamedTuple

WEB_VARIABLE = "ENABLE_WEB_INTERFACE"
_KEYWORD = re.compile(r"\s*([A-Za-z]+)(?=\s)")
_HEREDOC = re.compile(r"<<-?\s*([\"']?)(\w+)\1")
_BASE_ARGUMENT = re.compile(r"(?i)\s*ARG\s+BASE_IMAGE\b.*")
_FROM = re.compile(r"(?i)(?P<head>\s*FROM\s+(?:--\S+\s+)*)(?P<image>\S+)(?P<tail>(?:\s+AS\s+(?P<stage>\S+))?\s*)")
_OURS = re.compile(rf"ENV {WEB_VARIABLE}=(true|false)")


class _Instruction(NamedTuple):
    """Line of an instruction, and the instruction."""

    line: int
    keyword: str


def with_base_image(text: str, image: str) -> str:
    r"""Return a Dockerfile that builds on another image.

    Args:
        text: The Dockerfile. One with an argument ``BASE_IMAGE`` is given another default for it; in any other, the
            image of the last stage is replaced, and of every stage that has the same.
        image: Name of the image.

    Example:
        >>> print(with_base_image("FROM python:3.11 AS base\nFROM node:22\nFROM base", "mine"))
        FROM mine AS base
        FROM node:22
        FROM base
    """
    lines = text.splitlines()
    starts = [line for line, _ in _instructions(lines)]
    arguments = [line for line in starts if _BASE_ARGUMENT.fullmatch(lines[line])]
    if arguments:
        return _with_lines(text, dict.fromkeys(arguments, f"ARG BASE_IMAGE={image}"))
    stages = {line: stage for line in starts if (stage := _FROM.fullmatch(lines[line]))}
    replaced = _image_of_last(list(stages.values()))
    same = {line: stage for line, stage in stages.items() if stage["image"] == replaced}
    return _with_lines(text, {line: f"{stage['head']}{image}{stage['tail']}" for line, stage in same.items()})


def with_web_page(text: str, *, shown: bool) -> str:
    r"""Return a Dockerfile whose server shows browsers a start page, or shows none.

    Example:
        >>> print(with_web_page("FROM python\nCMD server", shown=True))
        FROM python
        ENV ENABLE_WEB_INTERFACE=true
        CMD server
    """
    lines = [line for line in text.splitlines() if not _OURS.fullmatch(line)]
    lines.insert(_line_of_start(lines), f"ENV {WEB_VARIABLE}={'true' if shown else 'false'}")
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def _line_of_start(lines: list[str]) -> int:
    """Return the number of the line that starts the server; that of the end, where none does."""
    found = {keyword: line for line, keyword in _instructions(lines) if keyword in ("CMD", "ENTRYPOINT")}
    return found.get("CMD", found.get("ENTRYPOINT", len(lines)))


def _instructions(lines: list[str]) -> Iterator[_Instruction]:
    """Iterate over the instructions: no continuations, as the CMD of a HEALTHCHECK, and no documents."""
    continued = False
    ends: list[str] = []
    for number, line in enumerate(lines):
        if ends:
            if line.strip() == ends[0]:
                ends.pop(0)
            continue
        if line.lstrip().startswith("#") or not line.strip():
            continue
        keyword = _KEYWORD.match(line)
        if keyword is not None and not continued:
            yield _Instruction(number, keyword[1].upper())
        ends = [end for _, end in _HEREDOC.findall(line)]
        continued = line.rstrip().endswith("\\")


def _image_of_last(stages: list[re.Match[str]]) -> str | None:
    """Return the image below the last stage, which may be built on an earlier one."""
    images = {stage["stage"].lower(): stage["image"] for stage in stages if stage["stage"]}
    image = stages[-1]["image"] if stages else None
    while image is not None and image.lower() in images:
        image = images.pop(image.lower())
    return image


def _with_lines(text: str, replaced: dict[int, str]) -> str:
    lines = [replaced.get(number, line) for number, line in enumerate(text.splitlines())]
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")
