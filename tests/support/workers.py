"""The worker processes of pytest-xdist, forked from one process that has collected all tests.

By itself, pytest-xdist starts each as a new Python, and each imports all tests and what they import, which is some
twenty seconds of the processor for each. A fork collects in two. On Linux alone: elsewhere, libraries that tests import
may not work in a fork.
"""

import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_PROGRAMS = Path(__file__).parent / "programs"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Have the workers forked in place of started."""
    if sys.platform != "linux" or not all(spec.popen for spec in specs):
        return
    folder = TemporaryDirectory(prefix="openenv-workers-")
    config.add_cleanup(folder.cleanup)
    address = str(Path(folder.name) / "socket")
    # The same plugins, since pytest warns of a plugin that tests have imported before it.
    plugins = [f"-p{plugin}" for plugin in config.option.plugins]
    command = [sys.executable, str(_PROGRAMS / "worker_template.py"), address, *plugins, *config.args]
    template = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    config.add_cleanup(partial(_end, template))
    assert template.stdout is not None
    if not template.stdout.readline():  # an import has ended it, which the workers say better
        return
    relay = shlex.join([sys.executable, "-S", str(_PROGRAMS / "worker_relay.py"), address])
    for spec in specs:
        spec.python = relay


def _end(template: subprocess.Popen[bytes]) -> None:
    """Close its standard input, with which it ends, and wait."""
    template.communicate()
