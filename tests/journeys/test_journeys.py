"""The first steps of an author, a researcher and a platform engineer, and their mistakes, as pages that are run."""

import socket
from pathlib import Path

import pytest
from tests.support.snippets import Walkthrough, blocks_of

PAGES = sorted(Path(__file__).parent.glob("*.md"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_journey_goes_as_it_is_written(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    with Walkthrough(tmp_path, port).following() as walkthrough:
        for block in blocks_of(page):
            walkthrough.follow(block, page)
