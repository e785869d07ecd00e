"""An index of lines by step keeps up with a file that grows, is cut off, and is written anew by a resumed run."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.records.lines import StepIndex

FIRST = [(1, 3), (1, 9), (2, 5), (3, 70)]


def line(step: int, size: int) -> bytes:
    return json.dumps({"step": step, "text": "x" * size}).encode() + b"\n"


def content(rows: Sequence[tuple[int, int]]) -> bytes:
    return b"".join(line(*row) for row in rows)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def test_the_lines_of_a_step_are_found_as_the_file_grows(path: Path) -> None:
    index = StepIndex(path)
    assert (index.lines(None), index.lines(1)) == ([], [])
    path.write_bytes(content(FIRST)[:-1])
    assert index.lines(None) == [line(2, 5)], "the last line is not whole yet"
    path.write_bytes(content(FIRST))
    assert (index.lines(None), index.lines(1)) == ([line(3, 70)], [line(1, 3), line(1, 9)])
    assert index.lines(4) == []


@pytest.mark.parametrize("again", [[(2, 6)], [(2, 6), (3, 200), (4, 1)], [(2, 5), (3, 71), (4, 4)]])
def test_a_resumed_run_writes_other_lines(path: Path, again: list[tuple[int, int]]) -> None:
    index = StepIndex(path)
    path.write_bytes(content(FIRST))
    assert index.lines(3) == [line(3, 70)]
    path.write_bytes(content(FIRST[:2] + again))
    for step in range(5):
        assert index.lines(step) == [line(*row) for row in FIRST[:2] + again if row[0] == step]
    path.unlink()
    assert index.lines(None) == []


@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30))), cuts=st.lists(st.floats(0, 1)))
def test_it_matters_not_when_the_file_was_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]], cuts: list[float]
) -> None:
    path = tmp_path_factory.mktemp("index") / "rollouts.jsonl"
    whole = content(rows)
    index = StepIndex(path)
    for cut in [*sorted(cuts), 1]:
        path.write_bytes(whole[: int(cut * len(whole))])
        index.lines(None)
    for step in range(5):
        assert index.lines(step) == [line(*row) for row in rows if row[0] == step]
