"""How a process of the model's begins: with limits, and with nothing of init's."""

import fcntl
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from .kernel import hide_memory
from .settings import Settings

# Init, the interpreter, and a second one while it leaves its threads behind.
_PROCESSES_OF_OURS = 3
# So that init gets its turn among them, and the server its own.
_NICENESS = 5
_CANNOT_RUN = 126
_NOT_FOUND = 127


def spawn(settings: Settings, descriptors: Sequence[int], program: Callable[[], object]) -> int:
    """Fork a process with limits.

    Args:
        settings: The limits.
        descriptors: The files that it has, numbered from 0 upwards; it has no others.
        program: What it does; its return ends the process.

    Returns:
        Its id.
    """
    pid = os.fork()
    if pid == 0:
        _begin(settings, descriptors, program)
    return pid


def execute(argv: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
    """Become another program.

    Args:
        argv: The command and its arguments.
        environment: Its variables.
        folder: Where it runs.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(folder)
        os.execvpe(argv[0], list(argv), dict(environment))
    except (OSError, ValueError) as error:
        os.write(2, f"{argv[0]}: {getattr(error, 'strerror', None) or error}\n".encode())
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN)


def _begin(settings: Settings, descriptors: Sequence[int], program: Callable[[], object]) -> NoReturn:
    try:
        os.setsid()
        _place(descriptors)
        os.nice(_NICENESS)
        hide_memory(False)  # what it hides from itself, it can't list either
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")  # where memory runs out, it goes before init
        _limit(settings)
        program()
    finally:
        os._exit(_CANNOT_RUN)


def _place(descriptors: Sequence[int]) -> None:
    highest = max(len(descriptors), *descriptors) + 1
    # First out of the way: a source may have the number of another's destination.
    copies = [_copy_above(descriptor, highest) for descriptor in descriptors]
    for number, copy in enumerate(copies):
        os.dup2(copy, number)
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))


def _copy_above(descriptor: int, lowest: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, lowest)


def _limit(settings: Settings) -> None:
    limits = {
        resource.RLIMIT_AS: settings.memory_bytes,
        resource.RLIMIT_FSIZE: settings.disk_bytes,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NOFILE: settings.open_files,
    }
    if settings.confined:  # otherwise it counts all that the user runs on this machine
        limits[resource.RLIMIT_NPROC] = settings.processes + _PROCESSES_OF_OURS
    for limit, value in limits.items():
        _, hard = resource.getrlimit(limit)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (allowed, allowed))
