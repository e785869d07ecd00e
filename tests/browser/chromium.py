"""A real Chromium, as Debian packages it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@contextmanager
def open_chromium(*arguments: str) -> Iterator[Any]:
    """Run a browser without a window; skips the test where there is none.

    Args:
        *arguments: Further arguments of its command line.
    """
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install --group test")
    if not CHROMIUM.exists():
        pytest.skip(f"There is no {CHROMIUM}: apt-get install -y chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", *arguments],  # it is root's, and shows nothing but the tests' own pages
        )
        try:
            yield browser
        finally:
            browser.close()
