"""Clients that are closed while the interpreter ends, or never."""

import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

PROGRAM = """
import atexit
from openenv import make

client = make("echo", capacity_wait_s=1).sync()
{closing}
client.reset()
print(client.async_client.base_url)
"""
CLOSINGS = {
    "at exit": "atexit.register(client.close)",
    "never": "",
}


@pytest.mark.parametrize("closing", CLOSINGS.values(), ids=CLOSINGS)
def test_the_program_ends_in_silence_and_so_does_its_server(closing: str) -> None:
    program = PROGRAM.format(closing=closing)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(done.stdout.strip()).port), timeout=60)
