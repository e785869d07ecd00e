"""Limits in one form: what is read, and what is refused."""

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.resources import Resources, parse_memory


@pytest.mark.parametrize(
    ("amount", "size"),
    [
        (1, 1),
        ("1", 1),
        ("1b", 1),
        ("512k", 512 * 1024),
        ("512m", 512 * 1024**2),
        ("512M", 512 * 1024**2),
        ("512Mi", 512 * 1024**2),
        ("512MB", 512 * 1024**2),
        ("512 MiB", 512 * 1024**2),
        (" 1.5g ", 3 * 1024**3 // 2),
        ("2T", 2 * 1024**4),
    ],
)
def test_memory_is_read(amount: str | int, size: int) -> None:
    assert parse_memory(amount) == size
    assert Resources(memory=amount).memory_bytes == size


@pytest.mark.parametrize(
    "amount", [0, -1, "0m", "", "m", "-1m", "1e9", "1x", "1mm", "1 2m", "nan", "inf", "٣m", "9" * 400]
)
def test_what_is_no_memory_is_refused(amount: str | int) -> None:
    with pytest.raises(ConfigurationError, match="Expected memory as bytes or with a unit"):
        Resources(memory=amount)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigurationError):
        assert parse_memory(text) > 0


@pytest.mark.parametrize(
    "limits", [{"cpus": 0}, {"cpus": -1}, {"cpus": math.nan}, {"cpus": math.inf}, {"pids": 0}, {"gpus": -1}]
)
def test_what_no_server_could_live_with_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"Expected {next(iter(limits))} to be"):
        Resources(**limits)


def test_nothing_is_limited_by_default() -> None:
    assert Resources() == Resources(cpus=None, memory=None, pids=None, gpus=0)
    assert Resources().memory_bytes is None
