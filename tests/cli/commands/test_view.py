"""``openenv view``: a browser is opened on a file of traces."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from tests.support.servers import eventually
from tests.support.trace_files import entries, episode, new_file


def test_a_browser_is_opened_on_the_episodes(tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        traces.add(episode(1, 3), entries(3))
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" >{opened}.new; mv {opened}.new {opened}\n')
    script.chmod(0o755)
    command = [sys.executable, "-m", "openenv.cli", "view", str(tmp_path)]
    environment = {**os.environ, "BROWSER": str(script)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        eventually(opened.exists, "the browser was opened")
        address = opened.read_text().strip()
        with httpx.Client(trust_env=False) as http:
            assert http.get(f"{address}/episodes").json()["count"] == 1
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert said.startswith(f"The episodes are at {address}.")
    assert process.returncode == 0


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "openenv.cli", "view", str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 1
    assert "Expected one file of traces" in finished.stderr
