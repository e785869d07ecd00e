"""A shell that goes on where the last command left it: the same folder, the same exported variables."""

import os
from collections.abc import Collection

from .call_result import CallResult
from .commands import Command, run_command
from .metering import Capture
from .settings import Settings

# $1 is what `export -p` wrote at the end of the last command, $2 its folder, $3 the command.
_SCRIPT = """\
eval "$1"
cd -- "$2" 2>/dev/null
trap '{ pwd -P; export -p; } >&3' EXIT
_command=$3
set --
eval "$_command"
"""
_MOST_STATE_BYTES = 64 * 1024
_MOST_COMMAND_BYTES = 120 * 1024


class Shell:
    """Runs commands of a shell.

    Args:
        folder: Where it begins.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._exports = ""
        self._program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"

    def run(self, command: str, wall_s: float, control: int, settings: Settings, keep: Collection[int]) -> CallResult:
        """Run a command.

        Args:
            command: In the shell's language.
            wall_s: Seconds that it may take.
            control: The descriptor of the socket to the server.
            settings: The limits.
            keep: Processes that are none of the command's.

        Raises:
            ServerGoneError: Nobody waits for the result any more.
            ValueError: The command is too long.
        """
        if len(command.encode()) > _MOST_COMMAND_BYTES:
            raise ValueError(f"a command may have {_MOST_COMMAND_BYTES} bytes; put longer input into a file")
        folder = self._folder if os.path.isdir(self._folder) else settings.work
        argv = [self._program, "-c", _SCRIPT, "shell", self._exports, folder, command]
        state = Capture(_MOST_STATE_BYTES)
        result = run_command(Command(argv, os.environ, folder, b"", wall_s), control, settings, keep, [state])
        self._remember(state)
        state.close()
        return result

    def _remember(self, state: Capture) -> None:
        """Note where the command has left the shell, unless it has left no word, or too many."""
        folder, _, exports = state.take().decode(errors="replace").partition("\n")
        if folder and not state.truncated:
            self._folder, self._exports = folder, exports
