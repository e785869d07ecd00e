"""Environments in folders are imported under their names; each test starts without those of the others."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fresh_imports() -> Iterator[None]:
    """Forget what a test has imported."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
