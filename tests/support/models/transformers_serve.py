"""A model behind transformers' own OpenAI-compatible server, in a process of its own, on the CPU."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.support.servers import eventually


@contextmanager
def transformers_serve(model: Path, cache: Path) -> Iterator[str]:
    """Serve the model of a folder, with an empty cache of the Hub; yield the address of its API."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(model), "--device", "cpu"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # With the imports of transformers, most of two minutes on a machine with a load of 10.
        eventually(lambda: process.poll() is not None or _is_healthy(port), "the server is ready", 300)
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait(60)


def _is_healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").is_success
    except httpx.TransportError:
        return False
