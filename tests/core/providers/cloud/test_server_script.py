"""The script that starts a server in a sandbox, in a real shell. What it finds in images is tried with each service."""

import subprocess
from pathlib import Path

from openenv.core.providers.cloud.server_script import server_script


def test_the_port_is_not_the_images(tmp_path: Path) -> None:
    command = tmp_path / "server"
    command.write_text('#!/bin/sh\necho "$SECRET" "$@"\n')
    command.chmod(0o755)
    script = server_script(None, {"SECRET": "it's one"}, "127.0.0.1")
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PORT": "7860"}
    done = subprocess.run(["sh", "-c", script], env=variables, capture_output=True, text=True, timeout=60)
    assert done.stdout == "it's one --host 127.0.0.1 --port 8000\n"
