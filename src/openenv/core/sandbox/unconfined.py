"""No sandbox: the same first process, in a folder of the server's disk, for machines that are themselves one."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from openenv.core.sandbox.packages import interpreter
from openenv.core.sandbox.started import StartedSandbox

_FOLDER = Path(__file__).parent
_BOOT = f"import sys; sys.path.insert(0, {str(_FOLDER)!r}); from guest.init import main; main()"


def start(work: Path, packages: Sequence[str], control: socket.socket, said: BinaryIO) -> StartedSandbox:
    """Start the first process.

    Args:
        work: An empty folder for the code's files.
        packages: None can be left out here: those that are installed can all be imported if any are wanted.
        control: The socket of the process.
        said: Where it writes what is wrong before it has begun.

    Returns:
        The process.
    """
    variables = {
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join([str(interpreter().parent), "/usr/bin", "/bin"]),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(work),
        "USER": "sandbox",
    }
    program = sys.executable if packages else str(interpreter())
    arguments = [program, "-s", "-P", "-B", "-c", _BOOT]
    process = subprocess.Popen(  # noqa: S603  # a program of ours
        arguments,
        stdin=control.fileno(),
        stdout=said,
        stderr=said,
        env=variables,
        cwd=work,
        start_new_session=True,  # Ctrl-C is for the server alone
    )
    return StartedSandbox(process)
