"""Findings of probes."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Status of the subject of a probe."""

    READY = "ready"
    MISSING = "missing"
    UNSURE = "unsure"
    """It did not answer in time, or works with a reserve that ``detail`` names."""


@dataclass(frozen=True)
class Finding:
    """Finding of a probe.

    Attributes:
        name: Its name, as in ``docker``.
        status: Whether it can be used.
        detail: Description of it, or of the fault.
        used_for: Its use.
        remedy: The command that adds it; empty where nothing is missing, or no command would help.
    """

    name: str
    status: Status
    detail: str
    used_for: str
    remedy: str = ""
