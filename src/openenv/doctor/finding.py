"""Findings of probes."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """States of what a probe looks at."""

    READY = "ready"
    MISSING = "missing"
    UNSURE = "unsure"
    """It did not answer in time, or works with a reserve that ``detail`` names."""


@dataclass(frozen=True)
class Finding:
    """Finding of a probe.

    Attributes:
        name: What it is called, as in ``docker``.
        status: Whether it can be used.
        detail: What there is, or what is wrong.
        used_for: What it is good for.
        remedy: The command that brings it; empty where nothing is missing, or no command would help.
    """

    name: str
    status: Status
    detail: str
    used_for: str
    remedy: str = ""
