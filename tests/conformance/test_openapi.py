"""A real server keeps to its OpenAPI document: schemathesis makes requests from it and checks every answer."""

import subprocess
import sys
from pathlib import Path

from tests.chaos.server import Server

# Requests to make of each kind, for each route.
_EXAMPLES = 15


def test_a_server_keeps_to_its_document(tmp_path: Path) -> None:
    with Server.of("ThreadedChainEnvironment", tmp_path, max_concurrent_envs=8) as server:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
        options = ["--checks", "all", "--seed", "1", "--max-examples", str(_EXAMPLES), "--no-color"]
        finished = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600, cwd=tmp_path)
        server.assert_nothing_unhandled()
    assert finished.returncode == 0, finished.stdout + finished.stderr
