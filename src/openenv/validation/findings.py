"""What a check says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

SubjectT = TypeVar("SubjectT")
Status = Literal["pass", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """Something that a check found wrong.

    Attributes:
        status: ``fail`` if the environment can't work or be published so, else ``warn``.
        text: What is wrong, and where.
        remedy: What to do about it.
    """

    status: Status
    text: str
    remedy: str


@dataclass(frozen=True)
class Check(Generic[SubjectT]):
    """One check of an environment: of its folder or, where that is another world's, of itself.

    Attributes:
        id: Its name in the report.
        measures: What it looks at, for people.
        find: Yields what is wrong.
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
