"""Every environment under ``envs/``, found by its files, so that a new one is tested without being named here.

What can't be found so stands in ``PARTICULARS``, and nowhere else.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from openenv.auto.package import EnvironmentPackage
from openenv.core.providers.health import wait_until_healthy

ENVIRONMENTS = Path(__file__).parents[1]
DISTRIBUTIONS = sorted(file.parent for file in ENVIRONMENTS.glob("*/pyproject.toml"))
PACKAGES = sorted(
    (EnvironmentPackage.from_folder(file.parent) for file in ENVIRONMENTS.rglob("openenv.yaml")),
    key=lambda package: package.module,
)


@dataclass(frozen=True)
class Particulars:
    """What the tests must be told of an environment.

    Attributes:
        illegal: The fields of an action that its first position refuses, though they have the right types. ``None``
            where there is none.
        sessions: How many sessions play at once. Fewer than 64 only where each takes a process of its own.
        steps: After how many steps an episode is cut off here.
        varying: Fields of observations that tell of the machine, such as durations.
        needs: What it needs of the machine beside Python, by the names of the mark ``needs``.
        refused: Values that a reset refuses, by the names of its parameters.
    """

    illegal: Mapping[str, Any] | None
    sessions: int = 64
    steps: int = 24
    varying: frozenset[str] = field(default_factory=frozenset)
    needs: tuple[str, ...] = ()
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


# By import path.
PARTICULARS = {
    "echo_env": Particulars(illegal=None),
    "blackjack_env": Particulars(illegal={"move": "split"}),
    "browsergym_env": Particulars(illegal=None, sessions=4, steps=3, needs=("browser",)),
    "catch_env": Particulars(illegal={"move": "up"}),
    "code_feedback_env": Particulars(
        illegal={"code": "x = 1", "function_name": "not_asked_for"},
        sessions=16,
        varying=frozenset({"execution_time_ms"}),
        needs=("sandbox",),
        refused={"difficulty": ("odd", ["easy"]), "max_attempts": (0, 1001, "many")},
    ),
    "coding_env": Particulars(
        illegal=None, sessions=16, needs=("sandbox",), refused={"max_steps": (0, -1, 1.5, "three", [3])}
    ),
    "game_2048_env": Particulars(illegal={"move": "north"}),
    "openspiel_env": Particulars(illegal={"action_id": 77}, refused={"game_name": (5,), "game_params": ([1],)}),
    "reasoning_gym_env": Particulars(
        illegal=None, needs=("reasoning-gym",), refused={"dataset": (5,), "config": ([1],)}
    ),
    "sql_env": Particulars(
        illegal={"type": "schema", "table": "no_such_table"},
        refused={"database": ("bank", 5), "difficulty": ("trivial", ["easy"]), "max_queries": (0, 10**6)},
    ),
    "sudoku_env": Particulars(
        illegal={"row": 1, "col": 1, "number": 1},
        refused={
            "difficulty": ("extreme", ["easy"]),
            "hints": (-1, 82, "few"),
            "max_moves": (0, 1001),
            "clues": (27, 81),
        },
    ),
    "terminal_env": Particulars(
        illegal={"type": "run", "command": "a\0b"},
        sessions=16,
        needs=("sandbox", "git"),
        refused={"family": ("odd",), "difficulty": ("odd",), "max_steps": (0, 1001, "many")},
    ),
    "textarena_env": Particulars(
        illegal=None,
        refused={
            "env_id": (5,),
            "num_players": (0, 16),
            "max_turns": (0, "many"),
            "opponents": ("clever", ["random"]),
            "player_id": ("first",),
            "history": ("all",),
        },
    ),
    "wordle_env": Particulars(illegal={"word": "abc"}, refused={"word_length": (2, 10, -1, "five", None, [5])}),
}


def each_environment() -> list[Any]:
    """Return a parameter for each environment, which is skipped where the machine lacks what the environment needs."""
    return [
        pytest.param(package, id=package.module, marks=pytest.mark.needs(*particulars_of(package).needs))
        for package in PACKAGES
    ]


def particulars_of(package: EnvironmentPackage) -> Particulars:
    """Return what is peculiar to an environment."""
    assert package.module in PARTICULARS, f"say in {__file__} which action {package.module} refuses"
    return PARTICULARS[package.module]


def readme_of(package: EnvironmentPackage) -> str:
    """Return the text of its README."""
    return (package.folder / "README.md").read_text(encoding="utf-8")


@contextmanager
def own_program(module: str, **variables: str) -> Iterator[str]:
    """Run ``python -m MODULE.server.app`` as its README says."""
    served, port = _started(module, inherited(**variables))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(served)


def _started(module: str, variables: Mapping[str, str]) -> tuple["subprocess.Popen[str]", int]:
    """Start it on a port that was free a moment ago; on another one if a program has taken that meanwhile."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        command = [sys.executable, "-m", f"{module}.server.app", "--port", str(port)]
        served = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
        )
        try:
            wait_until_healthy(f"http://127.0.0.1:{port}", 60, partial(_check_alive, served))
        except BaseException:
            _end(served)
            raise
        if _listens(served, port):
            return served, port
        _end(served)


def _listens(served: "subprocess.Popen[str]", port: int) -> bool:
    program = psutil.Process(served.pid)
    programs = [program, *program.children(recursive=True)]
    return any(
        own.laddr.port == port and own.status == psutil.CONN_LISTEN
        for each in programs
        for own in each.net_connections("tcp")
    )


def _end(served: "subprocess.Popen[str]") -> None:
    served.terminate()
    with suppress(subprocess.TimeoutExpired):
        served.communicate(timeout=10)
    served.kill()
    served.communicate()


def inherited(**variables: str) -> dict[str, str]:
    """This process's environment variables, without those that configure environments, and some more."""
    own = re.compile(r"PORT|MAX_CONCURRENT_ENVS|OPENENV_.*")
    return {name: value for name, value in os.environ.items() if not own.fullmatch(name)} | variables


def _check_alive(served: "subprocess.Popen[str]") -> None:
    if served.poll() is not None:
        assert served.stdout is not None
        pytest.fail(f"the server ended: {served.stdout.read()}")
