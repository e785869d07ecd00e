"""For the tests of the house and of its environments: needs, order, and how many examples property tests try."""

import logging
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from openenv.cli.loading import exempt_from_collection

pytest_plugins = [
    "tests.support.imported_modules",
    "tests.support.needs",
    "tests.support.pages",
    "tests.support.costs",
    "tests.support.level_marks",
    "tests.support.order",
]

# A shell starts what it runs in the background with Ctrl-C ignored, ``nohup`` with the terminal's end ignored, and so
# would be every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A first example may load what is large, and the machine may be busy.
settings.register_profile("openenv", max_examples=60, deadline=None)
# The same examples in each run: what a change is let in by must not depend on luck. Runs by hand look for new ones.
settings.register_profile("repeatable", settings.get_profile("openenv"), derandomize=True, database=None)
settings.load_profile("openenv")


_LOGGERS = [logging.getLogger(name) for name in (None, "openenv", "uvicorn", "uvicorn.access", "uvicorn.error")]
_LOGGED = [(logger.level, logger.propagate) for logger in _LOGGERS]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Log as before after each file: a server that runs in the process of the tests sets what uvicorn logs."""
    ended = yield
    if nextitem is None or nextitem.path != item.path:
        for logger, (level, propagate) in zip(_LOGGERS, _LOGGED, strict=True):
            logger.setLevel(level)
            logger.propagate = propagate
    return ended


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would look through all modules again and again, now and in tests."""
    with exempt_from_collection():
        return (yield)
