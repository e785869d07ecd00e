"""CPU time of starts: a server until it answers, and commands from their start to their end.

    python -m benchmarks.starts [--starts 10] [--beside CHECKOUT]

The least of several starts, as what other programs do only adds to it. Another checkout is started in turns with this
one, by the same interpreter.
"""

import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.processes import cpu_seconds
from benchmarks.public_package import ROOT

_ADDRESS = re.compile(r"http://[\w.]+:\d+")
_CLIENT = "from openenv import Action, EnvClient, Environment, Observation, State"
_COMMANDS = {
    "import a client and what authors write with": ["-c", _CLIENT],
    "openenv --help": ["-m", "openenv.cli", "--help"],
    "openenv list": ["-m", "openenv.cli", "list"],
    "openenv info echo": ["-m", "openenv.cli", "info", "echo"],
    "openenv play --help": ["-m", "openenv.cli", "play", "--help"],
    "openenv eval --help": ["-m", "openenv.cli", "eval", "--help"],
    "openenv validate --help": ["-m", "openenv.cli", "validate", "--help"],
}
_FILE = """
from openenv import Action, Environment, Observation, State

class QuietEnvironment(Environment[Action, Observation, State]):
    def reset(self, seed=None, episode_id=None):
        return Observation()

    def step(self, action):
        return Observation(done=True)

    @property
    def state(self):
        return State()
"""


def command_cpu(arguments: list[str], variables: Mapping[str, str]) -> float:
    """Return the CPU time of a command, with that of the processes that it waits for, in seconds."""
    process = subprocess.Popen([sys.executable, *arguments], env=variables, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{arguments} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def server_cpu(environment: str, variables: Mapping[str, str]) -> float:
    """Return the CPU time of a server's process from its start to its first answer, in seconds."""
    command = [sys.executable, "-m", "openenv.cli", "serve", environment, "--port", "0"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            addresses = (_ADDRESS.search(line) for line in server.stdout)
            address = next(found[0] for found in addresses if found)  # it listens: the request waits for the rest
            with urllib.request.urlopen(f"{address}/health", timeout=60):
                return cpu_seconds(psutil.Process(server.pid))
        finally:
            server.kill()


def main(
    starts: Annotated[int, typer.Option(min=1, help="Starts of each kind.")] = 10,
    beside: Annotated[Path | None, typer.Option(help="Another checkout, started in turns with this one.")] = None,
) -> None:
    """Print the least CPU time of each kind of start, in milliseconds."""
    checkouts = [ROOT] if beside is None else [beside.absolute(), ROOT]
    # Without compiled modules a start would cost twice as much.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables = [{**kept, "PYTHONPATH": str(checkout / "src")} for checkout in checkouts]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "quiet.py")
        file.write_text(_FILE)
        measures = {
            "openenv serve echo": partial(server_cpu, "echo"),
            "openenv serve FILE.py": partial(server_cpu, str(file)),
            **{name: partial(command_cpu, arguments) for name, arguments in _COMMANDS.items()},
        }
        table = Table("CPU time, ms", *(str(checkout) for checkout in checkouts))
        for name, measure in measures.items():
            turns = [[measure(each) for each in variables] for _ in range(starts + 1)]
            least = map(min, zip(*turns[1:], strict=True))  # the first start compiles what was edited
            table.add_row(name, *(f"{seconds * 1000:.0f}" for seconds in least))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
