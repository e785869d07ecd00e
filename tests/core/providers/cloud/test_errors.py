"""How long services ask to wait. Their errors and repeats are tried with each of them."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from openenv.core.providers.cloud.errors import retry_after


@pytest.mark.parametrize(("value", "seconds"), [("", 0), ("17", 17), ("soon", 0), ("-3", 0), ("٣", 0)])
def test_how_long_a_service_asks_to_wait(value: str, seconds: float) -> None:
    assert retry_after(value) == seconds


def test_a_date_to_wait_for() -> None:
    now = datetime.now(UTC)
    assert 50 < retry_after(format_datetime(now + timedelta(seconds=60), usegmt=True)) <= 60
    assert retry_after(format_datetime(now - timedelta(seconds=60), usegmt=True)) == 0
