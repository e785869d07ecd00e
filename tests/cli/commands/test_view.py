"""``openenv view``: a browser is opened on a file of traces, or on a training run."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from tests.support.servers import eventually
from tests.support.trace_files import entries, episode, new_file

from openenv.train.settings.config import TrainConfig
from openenv.train.settings.run_folder import RunFolder
from openenv.train.settings.run_start import RunStart


def viewed(folder: Path, path: str, tmp_path: Path) -> tuple[Any, str]:
    """What a route below the address answers that a browser is opened on, and what the command says."""
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" >{opened}.new; mv {opened}.new {opened}\n')
    script.chmod(0o755)
    command = [sys.executable, "-m", "openenv.cli", "view", str(folder)]
    environment = {**os.environ, "BROWSER": str(script)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            eventually(opened.exists, "the browser was opened")
            with httpx.Client(trust_env=False) as http:
                answer = http.get(f"{opened.read_text().strip()}/{path}").json()
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    return answer, said


def test_a_browser_is_opened_on_the_episodes(tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        traces.add(episode(1, 3), entries(3))
    count, said = viewed(tmp_path, "count", tmp_path)
    assert count == 1
    assert re.match(r"The episodes are at http://127\.0\.0\.1:\d+/web/traces\. Ctrl-C ends it\.", said)


def test_a_browser_is_opened_on_a_run(tmp_path: Path) -> None:
    folder = RunFolder.create(TrainConfig(environment="catch", output_dir=tmp_path, name="mine"), "catch")
    folder.add_start(RunStart.now())
    progress, said = viewed(folder.path, "progress", tmp_path)
    assert (progress["name"], progress["state"], progress["rows"]) == ("mine", "interrupted", [])
    assert re.match(r"The run is at http://127\.0\.0\.1:\d+/web/run\. Ctrl-C ends it\.", said)


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "openenv.cli", "view", str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 1
    assert "Expected one file of traces" in finished.stderr
