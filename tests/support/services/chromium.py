"""A real Chromium, as Debian packages it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.needs import find_program


@contextmanager
def open_chromium(*arguments: str) -> Iterator[Any]:
    """Run a browser without a window; skips the test where there is none.

    Args:
        *arguments: Further arguments of its command line.
    """
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install --group test")
    from browsergym_env.server.browser import WITHOUT_FEATURES  # which imports Playwright

    chromium = find_program("browser")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            # It is root's, and shows nothing but the tests' own pages.
            args=["--no-sandbox", WITHOUT_FEATURES, *arguments],
        )
        try:
            yield browser
        finally:
            browser.close()
