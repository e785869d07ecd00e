"""The files that take longest come first.

``pytest-xdist`` hands out whole files in the order in which they were collected (``--no-loadscope-reorder``; by itself
it begins with those that have the most tests). A file of minutes that comes last runs alone, while the other processes
have nothing left to do.
"""

from collections.abc import Iterable, Sequence

import pytest

LONGEST = (
    "tests/docs/test_snippets.py",
    "tests/train/test_catch_is_solved.py",
    "tests/train/test_scaffold_is_solved.py",
    "tests/train/test_command.py",
    "tests/journeys/test_journeys.py",
    "tests/chaos/test_chaos.py",
    "tests/train/test_training_examples.py",
    "tests/train/test_examples.py",
    "tests/train/test_other_trainers.py",
    "tests/train/run/test_training.py",
    "tests/train/test_trl_environments.py",
    "tests/train/spec/test_rollout_function.py",
    "tests/fleet/test_fleet.py",
    "tests/interop/test_interop.py",
    "tests/conformance/test_websocket.py",
    "tests/conformance/test_mcp.py",
    "tests/conformance/test_openapi.py",
    "tests/core/providers/docker/test_provider.py",
    "tests/images/test_builder.py",
    "tests/core/env_server/resumption/test_recovery.py",
    "tests/core/env_server/history/test_postgres.py",
    "tests/core/env_server/traces/test_recording.py",
    "tests/core/sandbox/test_escapes.py",
    "tests/browser/test_pages.py",
    "tests/benchmarks/test_benchmarks.py",
    "tests/test_doctests.py",
    "tests/test_imports.py",
)
"""Each takes half a minute or more in ``make test``; ``ARGS=--durations=100`` shows what belongs here."""


def longest_first(files: Iterable[str], longest: Sequence[str] = LONGEST) -> list[str]:
    """Sort files; those that are not among the longest keep their order, behind them.

    Example:
        >>> longest_first(["a", "b", "c", "d"], longest=["d", "b"])
        ['d', 'b', 'a', 'c']
    """
    ranks = {file: rank for rank, file in enumerate(longest)}
    return sorted(files, key=lambda file: ranks.get(file, len(ranks)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort what was collected; each process does, and all must have the same order."""
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
    items[:] = [item for file in longest_first(by_file) for item in by_file[file]]
