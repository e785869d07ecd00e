"""Logs of Inspect's that strangers wrote: what stands for more than fits into memory is refused."""

import os
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile

import inspect_ai.log  # noqa: F401  # what reads logs, which takes seconds to import
import pytest

from openenv import traces
from openenv.core.exceptions import ConfigurationError
from openenv.traces import TraceFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[TraceFile]:
    with traces.open(tmp_path / "traces.db", create=True) as opened:
        yield opened


@pytest.mark.parametrize(
    ("method", "name", "content", "problem"),
    [
        (ZIP_DEFLATED, "samples/a_epoch_1.json", b"x" * 100_000_000, "unpacks to more than"),
        (ZIP_DEFLATED, "samples/a_epoch_1.json", b"[],".ljust(60_000_000, b","), "values"),
        (ZIP_LZMA, "samples/a_epoch_1.json", b"x", "compressed by a method"),
        (ZIP_DEFLATED, "samples/a_epoch_1.json", b"[" * 100_000, ""),
        (ZIP_DEFLATED, "samples/a_epoch_1.json", b"{}", ""),
        (ZIP_DEFLATED, "samples/a/../../../b_epoch_1.json", b"{}", ""),
    ],
)
def test_a_small_log_that_stands_for_much_is_refused(
    file: TraceFile, tmp_path: Path, method: int, name: str, content: bytes, problem: str
) -> None:
    source = tmp_path / "log.eval"
    with ZipFile(source, "w", method) as log:
        log.writestr(name, content)
    assert source.stat().st_size < 200_000
    with pytest.raises(ConfigurationError, match=rf"Expected .*log\.eval to be a log of Inspect's.*{problem}"):
        traces.import_episodes(file, source)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".eval") == ["log.eval"]


def test_a_pipe_is_refused_at_once(file: TraceFile, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.eval")
    with pytest.raises(ConfigurationError, match="no regular file"):
        traces.import_episodes(file, tmp_path / "pipe.eval")
