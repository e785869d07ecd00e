"""A browser for the tests of a module; two can't run at once."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.services.chromium import open_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium that reaches this machine only."""
    with open_chromium("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1") as browser:
        yield browser
