"""Slots: taken, given back, never more than there are, in one process and over several."""

import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.servers import eventually

from openenv.core.env_server.capacity.slots import SharedCounts, Slots, WorkerSlots

WORKERS = 3

# Which worker does what; "clear" is what the supervisor does after a worker has died.
ACTS = st.lists(st.tuples(st.integers(0, WORKERS - 1), st.sampled_from(["take", "take", "give back", "clear"])))


@given(st.lists(st.booleans()), st.integers(0, 4))
def test_one_process_counts_as_a_model_does(acts: list[bool], limit: int) -> None:
    slots, taken = Slots(limit), 0
    for takes in acts:
        if takes:
            assert slots.acquire() is (taken < limit)
            taken = min(taken + 1, limit)
        elif taken:
            slots.release()
            taken -= 1
        assert slots.in_use == taken


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5), st.integers(0, 5))
def test_several_places_are_taken_all_or_none(here: int, elsewhere: int, count: int, limit: int) -> None:
    with SharedCounts.create(2) as counts:
        for slots in (Slots(limit), WorkerSlots(limit, counts, 0)):
            if isinstance(slots, WorkerSlots):
                WorkerSlots(limit, counts, 1).acquire(elsewhere)
            before = slots.in_use + (slots.acquire(here) and here)
            fits = before + count <= limit
            assert slots.acquire(count) is fits
            assert slots.in_use == before + count * fits
            if fits:
                slots.release(count)
            assert slots.in_use == before


@given(ACTS, st.integers(0, 5))
def test_workers_count_as_a_model_does(acts: list[tuple[int, str]], limit: int) -> None:
    taken: Counter[int] = Counter()
    with SharedCounts.create(WORKERS) as counts:
        slots = [WorkerSlots(limit, counts, worker) for worker in range(WORKERS)]
        for worker, act in acts:
            if act == "take":
                there_is_one = taken.total() < limit
                assert slots[worker].acquire() is there_is_one
                taken[worker] += there_is_one
            elif act == "clear":
                counts.clear(worker)
                taken[worker] = 0
            elif taken[worker]:
                slots[worker].release()
                taken[worker] -= 1
            assert [counts[each] for each in range(WORKERS)] == [taken[each] for each in range(WORKERS)]
            assert {each.in_use for each in slots} == {taken.total()}


def run_beside(file: IO[bytes], program: str) -> subprocess.Popen[str]:
    """Run a program that has the counts of two workers."""
    number = file.fileno()
    prologue = f"from openenv.core.env_server.capacity.slots import SharedCounts\ncounts = SharedCounts({number}, 2)\n"
    command = [sys.executable, "-c", prologue + textwrap.dedent(program)]
    return subprocess.Popen(command, pass_fds=[number], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def file() -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the test
    file.write(bytes(8))
    file.flush()
    return file


def test_to_take_a_place_waits_for_whoever_counts(file: IO[bytes]) -> None:
    with file:
        counts = SharedCounts(file.fileno(), 2)
        assert counts.acquire(0, 1)
        with counts.locked():
            other = run_beside(file, "print(counts.acquire(1, 1))")
            eventually(lambda: waits_for_a_lock(other) or other.poll() is not None, "it waits, or does not", 20)
            counts.release(0)
        assert other.communicate()[0] == "True\n"
        counts.close()


def waits_for_a_lock(process: subprocess.Popen[str]) -> bool:
    return re.search(rf"-> POSIX.* {process.pid} ", Path("/proc/locks").read_text()) is not None


def test_whoever_dies_with_the_lock_holds_up_nobody(file: IO[bytes]) -> None:
    program = """
        counts.acquire(0, 2)
        with counts.locked():
            print("locked", flush=True)
            import time
            time.sleep(60)
        """
    waiting = """
        counts.acquire(1, 2)
        print("taken", flush=True)
        """
    with file, run_beside(file, program) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with run_beside(file, waiting) as other:
            assert other.stdout is not None
            holder.kill()
            assert other.stdout.readline() == "taken\n"
        counts = SharedCounts(file.fileno(), 2)
        assert (counts[0], counts[1]) == (1, 1)
        counts.clear(0)
        assert counts.acquire(1, 2)
        assert not counts.acquire(1, 2)
        counts.close()


def test_a_child_that_a_worker_forked_does_not_keep_the_lock(file: IO[bytes]) -> None:
    program = """
        import os, time
        with counts.locked():
            if os.fork() == 0:
                time.sleep(60)
            print("forked", flush=True)
            os._exit(0)
        """
    with file, run_beside(file, program) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "forked\n"
        assert holder.wait(60) == 0
        counts = SharedCounts(file.fileno(), 2)
        assert counts.acquire(1, 1)
        counts.close()
        holder.stdout.close()
