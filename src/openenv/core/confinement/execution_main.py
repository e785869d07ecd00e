"""The confined process in which ``run_confined`` runs a piece of code."""

import os
import socket
import sys
from collections.abc import Mapping
from io import BufferedIOBase
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from openenv.core.confinement import confine
from openenv.core.confinement.execution import run_code


class _Function:
    """A function of the program, which the process calls over the socket."""

    def __init__(self, name: str, stream: BufferedIOBase) -> None:
        self.__name__ = name
        self._stream = stream

    def __call__(self, **arguments: Any) -> Any:
        _write(self._stream, {"call": self.__name__, "arguments": arguments})
        answer = from_json(self._stream.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]


def main(descriptor: int) -> None:
    """Run the code that comes over a socket, and send what came of it."""
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rwb") as stream:
        request = from_json(stream.readline())
        confine()
        names: dict[str, Any] = {name: _Function(name, stream) for name in request["functions"]}
        _write(stream, run_code(request["code"], names))


def _write(stream: BufferedIOBase, message: Mapping[str, Any]) -> None:
    try:
        line = to_json(message)
    except PydanticSerializationError as error:
        if "call" in message:
            raise TypeError(f"The arguments of {message['call']} can't be sent to it: {error}") from error
        line = to_json({"error": f"The value of `result` can't be sent from the code's process: {error}"})
    stream.write(line + b"\n")
    stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # without the threads that the code has left behind
