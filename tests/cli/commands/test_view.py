"""``openenv view``: a browser is opened on traces, a run or an evaluation, or on several beside each other."""

import os
import re
import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx
from tests.cli.conftest import Run
from tests.support.episode_folders import write_evaluation
from tests.support.forked import ForkedProgram
from tests.support.servers import eventually
from tests.support.trace_files import entries, episode, new_file

from openenv.records.run_start import RunStart
from openenv.train.settings.config import TrainConfig

VIEW = ["-m", "openenv.cli", "view"]


def viewed(paths: list[Path], path: str, tmp_path: Path) -> tuple[Any, str]:
    """What a route below the address answers that a browser is opened on, and what the command says."""
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" >{opened}.new; mv {opened}.new {opened}\n')
    script.chmod(0o755)
    environment = {**os.environ, "BROWSER": str(script)}
    words = [*VIEW, *map(str, paths)]
    with ForkedProgram(words, cwd=tmp_path, env=environment, stdout=PIPE) as process:
        try:
            eventually(opened.exists, "the browser was opened")
            with httpx.Client(trust_env=False) as http:
                answer = http.get(f"{opened.read_text().strip()}/{path}").json()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert process.stdout is not None
            said = process.stdout.read()
        finally:
            process.kill()
    return answer, said


def test_a_browser_is_opened_on_the_episodes(tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        traces.add(episode(1, 3), entries(3))
    count, said = viewed([tmp_path], "count", tmp_path)
    assert count == 1
    assert re.match(r"The episodes are at http://127\.0\.0\.1:\d+/web/traces\. Ctrl-C ends it\.", said)


def test_a_browser_is_opened_on_a_run(tmp_path: Path) -> None:
    folder = TrainConfig(environment="catch", output_dir=tmp_path, name="mine").make_folder("catch")
    folder.add_start(RunStart.now())
    progress, said = viewed([folder.path], "progress", tmp_path)
    assert (progress["name"], progress["state"], progress["rows"]) == ("mine", "interrupted", [])
    assert re.match(r"The run is at http://127\.0\.0\.1:\d+/web/run\. Ctrl-C ends it\.", said)


def test_a_folder_without_traces_is_refused(openenv: Run, tmp_path: Path) -> None:
    finished = openenv("view", tmp_path)
    assert finished.returncode == 2
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
    words = [*VIEW, str(tmp_path), "--host", "0.0.0.0", "--no-browser", "--stop-on-eof"]
    without = {name: value for name, value in os.environ.items() if name != "OPENENV_TOKEN"}
    with ForkedProgram(words, cwd=tmp_path, env=without, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            url = next(lines).split(" at ")[1].partition("/web/")[0]
            token = next(line for line in lines if "OPENENV_TOKEN=" in line).strip().partition("=")[2]
            assert [next(lines) for _ in range(2)] == ["\n", "The page requires the token.\n"]
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


def test_one_html_file_is_written_and_never_over_another(openenv_here: Run, tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        traces.add(episode(1, 3), entries(3))
    output = tmp_path / "page.html"
    written = openenv_here("view", tmp_path, "--output", output, "--episode", "1-1")
    assert (written.returncode, written.stdout) == (0, f"Wrote {output}.\n")
    assert output.read_bytes().startswith(b"<!doctype html>")
    again = openenv_here("view", tmp_path, "--output", output)
    assert (again.returncode, "exists" in again.stderr) == (1, True)
    without = openenv_here("view", tmp_path, "--episode", "1-1")
    assert (without.returncode, "Expected --output with --episode" in without.stderr) == (2, True)
