"""What is to be installed with pip."""

from importlib.metadata import metadata

import pytest
from packaging.requirements import Requirement

from openenv.doctor import packages
from openenv.doctor.finding import Status


def test_every_extra_is_known() -> None:
    assert packages.extras() == sorted(metadata(packages.DISTRIBUTION).get_all("Provides-Extra") or ())
    assert set(packages.extras()) == set(packages._USED_FOR)


def test_what_all_of_openenv_requires_belongs_to_no_extra() -> None:
    assert "uvloop" not in packages.extra("postgres").detail
    assert packages.extra("postgres").detail.startswith("psycopg 3.")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("pytest", ""),
        ("pytest>=1", ""),
        ("pytest>=999", "expected >=999"),
        ("no-such-distribution-at-all", "no-such-distribution-at-all is not installed"),
        ("no-such-distribution-at-all; sys_platform == 'win32'", ""),
        ("pytest[some]>=1", ""),
    ],
)
def test_what_is_missing(line: str, told: str) -> None:
    assert told in packages.missing([Requirement(line)])
    assert bool(told) is bool(packages.missing([Requirement(line)]))


def test_an_extra_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [(Requirement("no-such-distribution-at-all>=2"), "ray")]
    monkeypatch.setattr(packages, "_with_extras", lambda: iter(wanted))
    found = packages.extra("ray")
    assert (found.status, found.remedy) == (Status.MISSING, 'pip install "openenv-core[ray]"')
