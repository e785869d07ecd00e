"""What a command's imports make, and the garbage collector."""

import gc
from collections.abc import Iterator

import pytest

from openenv.cli.loading import exempt_from_collection


class Kept:
    """Stands for what an import makes."""


@pytest.fixture(autouse=True)
def _collector_restored() -> Iterator[None]:
    """Leave the collector as it was: other tests run in this process."""
    assert gc.isenabled()
    yield
    gc.unfreeze()
    gc.enable()


def is_visited(kept: Kept) -> bool:
    return any(each is kept for each in gc.get_objects())


def test_what_the_block_makes_is_not_visited_by_the_collector() -> None:
    before = Kept()
    assert is_visited(before)
    with exempt_from_collection():
        assert not gc.isenabled()
        during = Kept()
    after = Kept()

    assert [is_visited(kept) for kept in (before, during, after)] == [False, False, True]
    assert gc.isenabled()


def test_a_block_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ModuleNotFoundError), exempt_from_collection():
        import no_such_module_of_anyone  # type: ignore[import-not-found]  # noqa: F401

    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with exempt_from_collection():
        pass

    assert not gc.isenabled()
