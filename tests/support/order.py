"""The files that take longest come first.

``pytest-xdist`` hands out whole files in the order in which they were collected (``--no-loadscope-reorder``; by itself
it begins with those that have the most tests). A file of minutes that comes last runs alone, while the other processes
have nothing left to do. How long each takes is on record (``tests/costs.tsv``); a file that is not comes first.
"""

import math
from collections.abc import Mapping

import pytest
from tests.support.costs import file_of, read_costs, summed


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort what was collected; each process does, and all must have the same order."""
    costs = read_costs(config.rootpath)
    files = summed(costs, {test: file_of(test) for test in costs})
    sort_by_time(items, {file: cost.wall_s for file, cost in files.items()})


def sort_by_time(items: list[pytest.Item], times: Mapping[str, float]) -> None:
    """Sort tests by the time that their whole file takes, the longest first; the tests of a file stay together.

    Args:
        items: The tests, which are sorted in place.
        times: Seconds of each file.
    """
    files = {file_of(item.nodeid): position for position, item in reversed(list(enumerate(items)))}
    items.sort(key=lambda item: (-times.get(file := file_of(item.nodeid), math.inf), files[file]))
