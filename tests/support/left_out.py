"""Plugin that leaves tests out by their whole ids; ``--deselect`` takes each as a prefix.

It imports nothing of the tests, as what a plugin of the command line imports is there before ``conftest.py`` is read.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--left-out", type=Path, help="file with the ids of tests to leave out, a line each")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the file names."""
    left_out = set(config.getoption("--left-out").read_text(encoding="utf-8").splitlines())
    if deselected := [item for item in items if item.nodeid in left_out]:
        items[:] = [item for item in items if item.nodeid not in left_out]
        config.hook.pytest_deselected(items=deselected)
