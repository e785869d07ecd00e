"""Journals that the version before has written are read."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.journaled_server import MappedWalk, Walk
from tests.support.trace_files import file_of_dump
from tests.support.walkers import ServeWalks, Walker

DATA = Path(__file__).parent / "data"
"""Dumps of files of SQLite, made by commit 55f35c2 while a session was open; the first line of each names the session,
its token, its last request and where its walk stood."""


@pytest.mark.parametrize("environment", [Walk, MappedWalk])
def test_a_session_in_a_journal_of_the_version_before_goes_on(
    environment: Any, tmp_path: Path, serve_walks: ServeWalks
) -> None:
    dump = DATA / f"{environment.__name__}.sql"
    session, token, last_id, at = dump.read_text().splitlines()[0].removeprefix("-- ").split()
    path = file_of_dump(dump, tmp_path / "journal")
    with serve_walks(environment, journal=str(path)).v1() as wire:
        walker = Walker(wire, session, token, int(last_id))
        assert walker.attach(wire) == walker.last_id
        assert walker.step(0)["observation"]["at"] == float(at)
