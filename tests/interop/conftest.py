"""Both packages, each in an interpreter of its own, and what comes of playing one against the other.

Programs are forked from a process that has imported the package, which takes the public one seconds of the processor.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.public_package import COMMAND, ROOT, PublicPackageError, public_python
from tests.support.forked import COMMANDS, ForkedProgram, Template, run_forked
from tests.support.needs import skip_without

PROGRAMS = "tests.interop.programs"
PACKAGES = ("ours", "public")

Interpreters = dict[str, Path]
"""The interpreter that has each package."""

Templates = dict[str, Template]
"""What programs with each package are forked from."""

Played = dict[str, dict[str, Any]]
"""What each scenario of a program saw, or how it failed."""


@pytest.fixture(scope="session")
def interpreters() -> Interpreters:
    """The interpreter that has each package."""
    try:
        return {"ours": Path(sys.executable), "public": public_python()}
    except PublicPackageError as error:
        skip_without("the public package", str(error), COMMAND)


@pytest.fixture(scope="session")
def templates(interpreters: Interpreters) -> Templates:
    """What programs with each package are forked from."""
    public = ("openenv.core.env_server", "openenv.cli.__main__", "uvicorn.main")
    return {"ours": COMMANDS, "public": Template(interpreters["public"], public)}


@pytest.fixture(
    scope="session", params=[f"{client} client, {server} server" for client in PACKAGES for server in PACKAGES]
)
def pairing(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Whose client drives whose server."""
    client, _, server, _ = request.param.split()
    return client, server


def played_by(pairing: tuple[str, str], templates: Templates, *, server: str, player: str, sessions: int) -> Played:
    """Play all scenarios of a program, in one process of the client's package."""
    client, served = pairing
    with running_server(templates[served], server, sessions) as url:
        words = ["-m", f"{PROGRAMS}.{player}", "--url", url]
        finished = run_forked(words, cwd=ROOT, env=os.environ, timeout=100, template=templates[client])
    assert finished.returncode == 0, finished.stderr
    outcomes: Played = json.loads(finished.stdout)
    return outcomes


@contextmanager
def running_server(template: Template, program: str, sessions: int) -> Iterator[str]:
    """Serve with the package that a template has, and yield the address."""
    words = ["-m", f"{PROGRAMS}.{program}", "--sessions", str(sessions)]
    with ForkedProgram(words, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, template=template) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def saw(played: Played, scenario: str) -> Any:
    """Return what a scenario saw."""
    assert "failed" not in played[scenario], played[scenario]["failed"]
    return played[scenario]["saw"]
