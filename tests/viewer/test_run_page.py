"""The page of a run is served while it trains, and can't make the training fail."""

import os
import re
import socket
from io import StringIO
from pathlib import Path

import httpx
import pytest
from rich.console import Console
from tests.support.servers import eventually

from openenv.records.run_folder import RunFolder
from openenv.records.run_start import RunStart
from openenv.train.settings.config import TrainConfig
from openenv.viewer.run_page import PageAddress, RunPage

ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = TrainConfig(environment="catch", output_dir=tmp_path, name="mine").make_folder("catch")
    folder.add_start(RunStart.now())
    return folder


@pytest.mark.level("process")
def test_the_page_is_served_until_the_end(folder: RunFolder) -> None:
    said = StringIO()
    with folder.held(), RunPage(folder.path, PageAddress(), Console(file=said)) as page:
        pid = page.pid
        assert pid is not None
        eventually(lambda: said.getvalue().count("\n") > 0, "the address was printed")
        found = re.fullmatch(r"The run is at (http://127\.0\.0\.1:\d+)/web/run\.\n", said.getvalue())
        assert found is not None, said.getvalue()
        url = found[1]
        eventually(lambda: httpx.get(f"{url}/web/config", trust_env=False).is_success, "the page was served")
        with httpx.Client(base_url=url, trust_env=False) as http:
            assert http.get("/web/run/progress").json()["state"] == "running"
            assert http.get("/web/config").json()["traces"] is True
            assert http.get("/web/run/progress", headers=ELSEWHERE).status_code == 401
    assert page.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert said.getvalue().count("\n") == 1


@pytest.mark.level("process")
def test_a_port_that_is_taken_is_said_and_nothing_fails(folder: RunFolder) -> None:
    said = StringIO()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with RunPage(folder.path, PageAddress(port=port), Console(file=said)):
            eventually(lambda: "Can't listen" in said.getvalue(), "the reason was printed")
    assert f"Can't listen on 127.0.0.1:{port}: Address already in use." in said.getvalue()
