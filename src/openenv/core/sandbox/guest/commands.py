"""Commands: each a process of its own, which ends with all that it has started."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from .call_result import CallResult, exit_code_at, exit_code_of
from .metering import Capture, Feed, watch
from .processes import end_others
from .settings import Settings
from .spawn import execute, spawn


class Command(NamedTuple):
    """What to run.

    Attributes:
        argv: The command and its arguments.
        environment: Its variables.
        folder: Where it runs.
        stdin: What it may read.
        wall_s: Seconds that it may take.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    stdin: bytes
    wall_s: float


def run_command(
    command: Command,
    control: int,
    settings: Settings,
    keep: Collection[int],
    further: Sequence[Capture] = (),
) -> CallResult:
    """Run a command, and end what it leaves behind.

    Args:
        command: The command.
        control: The descriptor of the socket to the server.
        settings: The limits.
        keep: Processes that are none of the command's.
        further: Outputs that it has as descriptor 3 and so on.

    Returns:
        What it gave.

    Raises:
        ServerGoneError: Nobody waits for the result any more.
    """
    program = partial(execute, command.argv, command.environment, command.folder)
    return run_program(program, command.stdin, command.wall_s, control, settings, keep, further)


def run_program(
    program: Callable[[], object],
    given: bytes,
    wall_s: float,
    control: int,
    settings: Settings,
    keep: Collection[int],
    further: Sequence[Capture] = (),
) -> CallResult:
    """Run a function in a process of its own, and end what it leaves behind; as ``run_command``."""
    captures = [Capture(settings.output_bytes), Capture(settings.output_bytes), *further]
    stdin, ours = os.pipe2(os.O_CLOEXEC)
    feed = Feed(ours, given)
    pid = spawn(settings, [stdin, *(capture.writer for capture in captures)], program)
    os.close(stdin)
    done = os.pidfd_open(pid)
    try:
        stopped = watch(control, [done], captures, feed, settings, wall_s, [*keep, pid])
        exit_code = exit_code_of(pid)
    finally:
        os.close(done)
        feed.close()
        end_others(keep)
    stdout, stderr, *_ = [capture.take() for capture in captures[:2]]
    for capture in captures[:2]:
        capture.close()
    if stopped or exit_code is None:
        exit_code = exit_code_at(stopped)
    return CallResult(stdout, stderr, exit_code, any(c.truncated for c in captures[:2]), stopped, False)
