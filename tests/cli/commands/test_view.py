"""``openenv view``: a browser is opened on traces, a run or an evaluation, or on several beside each other."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx
from tests.support.episode_folders import write_evaluation
from tests.support.servers import eventually
from tests.support.trace_files import entries, episode, new_file

from openenv.train.settings.config import TrainConfig
from openenv.train.settings.run_folder import RunFolder
from openenv.train.settings.run_start import RunStart

VIEW = [sys.executable, "-m", "openenv.cli", "view"]


def viewed(paths: list[Path], path: str, tmp_path: Path) -> tuple[Any, str]:
    """What a route below the address answers that a browser is opened on, and what the command says."""
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" >{opened}.new; mv {opened}.new {opened}\n')
    script.chmod(0o755)
    command = [*VIEW, *map(str, paths)]
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
    count, said = viewed([tmp_path], "count", tmp_path)
    assert count == 1
    assert re.match(r"The episodes are at http://127\.0\.0\.1:\d+/web/traces\. Ctrl-C ends it\.", said)


def test_a_browser_is_opened_on_a_run(tmp_path: Path) -> None:
    folder = RunFolder.create(TrainConfig(environment="catch", output_dir=tmp_path, name="mine"), "catch")
    folder.add_start(RunStart.now())
    progress, said = viewed([folder.path], "progress", tmp_path)
    assert (progress["name"], progress["state"], progress["rows"]) == ("mine", "interrupted", [])
    assert re.match(r"The run is at http://127\.0\.0\.1:\d+/web/run\. Ctrl-C ends it\.", said)


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    command = [*VIEW, str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 1
    assert "or one file of traces (.db); found none." in " ".join(finished.stderr.split())


def test_a_browser_is_opened_on_two_beside_each_other(tmp_path: Path) -> None:
    paths = [write_evaluation(tmp_path / name, {1: [reward]}) for name, reward in (("one", 0.0), ("other", 1.0))]
    tasks, said = viewed(paths, "tasks", tmp_path)
    assert (tasks["common"], tasks["rows"][0]["ids"]) == (1, ["1:1-1", "2:1-1"])
    assert re.match(r"The comparison is at http://127\.0\.0\.1:\d+/web/compare\. Ctrl-C ends it\.", said)


def test_a_browser_is_opened_on_an_evaluation(tmp_path: Path) -> None:
    summary, said = viewed([write_evaluation(tmp_path / "words", {1: [0.5]})], "summary", tmp_path)
    assert summary["name"] == "words"
    assert re.match(r"The results are at http://127\.0\.0\.1:\d+/web/results\.", said)


def test_other_machines_need_the_token_that_is_printed(tmp_path: Path) -> None:
    new_file(tmp_path / "traces.db").close()
    command = [*VIEW, str(tmp_path), "--host", "0.0.0.0", "--no-browser", "--stop-on-eof"]
    without = {name: value for name, value in os.environ.items() if name != "OPENENV_TOKEN"}
    with subprocess.Popen(command, env=without, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            url = next(lines).split(" at ")[1].partition("/web/")[0]
            token = next(line for line in lines if "OPENENV_TOKEN=" in line).strip().partition("=")[2]
            assert [next(lines) for _ in range(2)] == ["\n", "The page asks for the token.\n"]
            assert "Nothing is encrypted." in next(lines)
            elsewhere = {"X-Forwarded-For": "203.0.113.9"}
            with httpx.Client(base_url=url, trust_env=False, headers=elsewhere) as http:
                assert http.get("/web/traces/episodes").status_code == 401
                allowed = http.get("/web/traces/episodes", headers={"Authorization": f"Bearer {token}"})
            assert (allowed.status_code, allowed.json()) == (200, [])
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()
