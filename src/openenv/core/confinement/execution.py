"""Code of agents that a program runs: each piece in a confined process of its own, which calls the program's functions.

What comes from the process is JSON, a line each, and may be anything: it is read, and never run.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from openenv.core.wire.redaction import message_of, withheld_variables

_MAIN = "openenv.core.confinement.execution_main"
_LONGEST_LINE = 100 * 2**20


def run_code(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run Python code in this process, which has to be confined, or on a machine that is itself a sandbox.

    Args:
        code: The code.
        names: What it finds by name; it adds its own variables.

    Returns:
        What its variable ``result`` was, as ``result``, or why it failed, as ``error``.
    """
    outcome = _outcome_of(partial(exec, code, names))
    return outcome if "error" in outcome else {"result": names.get("result")}


def run_confined(code: str, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Run Python code in a new confined process, and wait until it has ended.

    The process has the variables of this one but for secrets, and none of its memory.

    Args:
        code: The code, which calls the functions by name, with keyword arguments that JSON can hold.
        functions: The functions, which run here.

    Returns:
        As ``run_code``; a result that JSON can't hold is an error.

    Example:
        >>> run_confined("result = double(x=4)", {"double": lambda x: 2 * x})
        {'result': 8}
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(  # noqa: S603  # a program of ours
            [sys.executable, "-m", _MAIN, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=_environment(),
        )
        theirs.close()
        try:
            with ours.makefile("rwb") as stream:
                _write(stream, {"code": code, "functions": list(functions)})
                outcome = _answer_calls(stream, functions)
        except OSError:  # the process has ended
            outcome = None
        finally:
            process.kill()
            process.wait()
    return outcome or {"error": "The process of the code has ended before the code had."}


def _environment() -> dict[str, str]:
    withheld = set(withheld_variables())
    kept = {name: value for name, value in os.environ.items() if name not in withheld}
    return {**kept, "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}


def _answer_calls(stream: BufferedIOBase, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Any] | None:
    """Call the functions that the process names until it sends its outcome; ``None`` where none comes."""
    while line := stream.readline(_LONGEST_LINE):
        try:
            message = from_json(line)
        except ValueError:
            return None
        match message:
            case {"call": str(name), "arguments": dict(arguments)} if name in functions:
                _write(stream, _outcome_of(partial(functions[name], **arguments)))
            case {"result": result}:
                return {"result": result}
            case {"error": str(error)}:
                return {"error": error}
            case _:
                return None
    return None


def _outcome_of(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": work()}
    except Exception as error:  # noqa: BLE001  # whatever code raises is what came of it
        invalid = "Invalid syntax: " if isinstance(error, SyntaxError) else ""
        return {"error": invalid + message_of(error)}


def _write(stream: BufferedIOBase, message: Mapping[str, Any]) -> None:
    try:
        line = to_json(message)
    except PydanticSerializationError as error:
        line = to_json({"error": f"The function's value can't be sent to the code: {error}"})
    stream.write(line + b"\n")
    stream.flush()
