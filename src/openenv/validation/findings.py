"""Checks and their findings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

SubjectT = TypeVar("SubjectT")
Status = Literal["pass", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """Fault that a check found.

    Attributes:
        status: ``fail`` if the environment can't work or be published so, else ``warn``.
        text: The fault, and its location.
        remedy: Remedy for it.
    """

    status: Status
    text: str
    remedy: str


@dataclass(frozen=True)
class Check(Generic[SubjectT]):
    """Check of an environment: of its folder or, where that is another library's, of itself.

    Attributes:
        id: Its name in the report.
        measures: Its subject, for people.
        find: Yields the faults.
    """

    id: str
    measures: str
    find: Callable[[SubjectT], Iterable[Finding]]


def fail(text: str, remedy: str) -> Finding:
    """Make a finding that fails the check."""
    return Finding("fail", text, remedy)


def warn(text: str, remedy: str) -> Finding:
    """Make a finding that does not fail the check."""
    return Finding("warn", text, remedy)
