"""Both packages, each in an interpreter of its own, and what comes of playing one against the other."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.public_package import COMMAND, ROOT, PublicPackageError, public_python
from tests.support.needs import skip_without

PROGRAMS = "tests.interop.programs"
PACKAGES = ("ours", "public")

Interpreters = dict[str, Path]
"""The interpreter that has each package."""

Played = dict[str, dict[str, Any]]
"""What each scenario of a program saw, or how it failed."""


@pytest.fixture(scope="session")
def interpreters() -> Interpreters:
    """The interpreter that has each package."""
    try:
        return {"ours": Path(sys.executable), "public": public_python()}
    except PublicPackageError as error:
        skip_without("the public package", str(error), COMMAND)


@pytest.fixture(
    scope="session", params=[f"{client} client, {server} server" for client in PACKAGES for server in PACKAGES]
)
def pairing(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Whose client drives whose server."""
    client, _, server, _ = request.param.split()
    return client, server


def played_by(
    pairing: tuple[str, str], interpreters: Interpreters, *, server: str, player: str, sessions: int
) -> Played:
    """Play all scenarios of a program, in one process of the client's package, which takes seconds to import."""
    client, served = pairing
    with running_server(interpreters[served], server, sessions) as url:
        command = [str(interpreters[client]), "-m", f"{PROGRAMS}.{player}", "--url", url]
        finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert finished.returncode == 0, finished.stderr
    outcomes: Played = json.loads(finished.stdout)
    return outcomes


@contextmanager
def running_server(python: Path, program: str, sessions: int) -> Iterator[str]:
    """Serve with the package that an interpreter has, and yield the address."""
    command = [str(python), "-m", f"{PROGRAMS}.{program}", "--sessions", str(sessions)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def saw(played: Played, scenario: str) -> Any:
    """Return what a scenario saw."""
    assert "failed" not in played[scenario], played[scenario]["failed"]
    return played[scenario]["saw"]
