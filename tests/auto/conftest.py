"""Environments in folders are imported under their names; each test starts without those of the others."""

import sys
import sysconfig
from collections.abc import Iterator

import pytest

_LIBRARIES = sysconfig.get_path("platlib")


@pytest.fixture(autouse=True)
def fresh_imports() -> Iterator[None]:
    """Forget what a test has imported."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        # Libraries stay: some, as NumPy, can be imported once in a process.
        if not (getattr(sys.modules[name], "__file__", None) or "").startswith(_LIBRARIES):
            del sys.modules[name]
