"""Environments that another process can import, and what they may do to it."""

import asyncio
import ctypes
import logging
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, NoReturn

from numpy import random  # here, so that it is loaded before any fork
from pydantic import PrivateAttr
from tests.support.environments.common import Do, Shown

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata, State
from openenv.core.exceptions import EnvironmentTimeoutError, IllegalActionError, InvalidRequestError, RequestError
from openenv.core.telemetry import is_on

logger = logging.getLogger(__name__)


class UnpicklableError(Exception):
    """Holds what can't be pickled, and can't be made from its arguments."""

    def __init__(self, one: int, *, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()


class QuietError(RequestError):
    """An error of an environment's own, of a code of its own."""

    code = "EXECUTION_ERROR"


def segfault() -> None:
    ctypes.string_at(0)


def hang_with_the_gil() -> None:
    """Never end, in C, so that no other thread of the process runs."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def exit_with_3() -> None:
    os._exit(3)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def use_all_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))
    hoard = [bytearray(10_000_000)]
    while True:
        hoard.append(bytearray(10_000_000))


def leave_a_grandchild() -> Shown:
    """Start a process that ignores all that can be ignored, and holds this one's socket."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(60)
    return Shown(value=pid)


def leave_a_grandchild_and_die() -> None:
    leave_a_grandchild()
    os._exit(4)


def close_every_descriptor() -> None:
    os.closerange(3, 200)


def say(text: str) -> Callable[[], Shown]:
    def speak() -> Shown:
        print(f"printed {text}", flush=True)  # noqa: T201
        os.write(2, f"written {text}\n".encode())
        logger.warning("logged %s", text)
        return Shown(value=sys.stdin.read())

    return speak


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def throw() -> NoReturn:
        raise error

    return throw


def shown(value: Callable[[], Any]) -> Callable[[], Shown]:
    return lambda: Shown(value=value())


def write_garbage() -> None:
    """Write on every socket what no link would."""
    for descriptor in range(3, 64):
        with suppress(OSError):
            socket.socket(fileno=os.dup(descriptor)).sendall(b"\xff" * 64)


def vanish() -> None:
    """Leave the server without a word, and hang on."""
    for descriptor in range(3, 64):
        with suppress(OSError):
            socket.socket(fileno=os.dup(descriptor)).shutdown(socket.SHUT_RDWR)
    hang_with_the_gil()


class Locked(Shown):
    """Holds what can't be pickled."""

    _lock: Any = PrivateAttr(default_factory=threading.Lock)


TABLE: dict[str, Callable[[], Any]] = {
    "segfault": segfault,
    "hang": hang_with_the_gil,
    "exit": exit_with_3,
    "kill": kill_itself,
    "memory": use_all_memory,
    "grandchild": leave_a_grandchild,
    "orphan": leave_a_grandchild_and_die,
    "close": close_every_descriptor,
    "garbage": write_garbage,
    "vanish": vanish,
    "say": say("this"),
    "raise": raising(ValueError("kaboom")),
    "unpicklable": raising(UnpicklableError(1, two=2)),
    "illegal": raising(IllegalActionError("Expected a word, got 'zzzzz'.")),
    "invalid": raising(InvalidRequestError("bad", code="VALIDATION_ERROR", errors=[{"type": "x", "loc": ["a"]}])),
    "own": raising(QuietError("quiet", level=7)),
    "timeout": raising(EnvironmentTimeoutError("database", 3)),
    "leave": raising(SystemExit(5)),
    "surrogate": raising(ValueError("half \ud800")),
    "nothing": lambda: None,
    "unsendable": shown(object),
    "unpicklable result": Locked,
    "nan": shown(lambda: float("nan")),
    "large": shown(lambda: "x" * 3_000_000),
    "pid": shown(os.getpid),
    "parent": shown(os.getppid),
    "thread": shown(threading.get_ident),
    "argv": shown(lambda: sys.argv),
    "modules": shown(lambda: [name for name in ("fastapi", "uvicorn", "starlette") if name in sys.modules]),
    "random": shown(lambda: int(random.randint(2**31))),
    "info": lambda: (Shown(value="five"), 1.5, False, True, {"note": "é"}),
}


class Isolated(Environment[Do, Shown, State]):
    """Does in ``step`` what the table says, in a thread."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True
    made_in: ClassVar[list[int]] = []

    def __init__(self, note: str = "") -> None:
        self.note = note
        self.made_in.append(os.getpid())

    def reset(self, what: str = "", **task: Any) -> Any:
        return self.step(Do(what=what)) if what else Shown(value={"task": task, "note": self.note})

    def step(self, action: Do) -> Any:
        return TABLE[action.what]() if action.what in TABLE else Shown(value=action.what)

    @property
    def state(self) -> State:
        return State(episode_id="é")

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="isolated", description=f"in {os.getpid()}")


class InlineIsolated(Isolated):
    """Does it on its process's loop."""

    BLOCKING = False


class AsyncIsolated(Isolated):
    """Does it in a coroutine; ``wait`` never ends, and notes that it waits and how it was told to end."""

    waits: ClassVar[bool] = False
    cancelled: ClassVar[bool] = False

    async def step(self, action: Do) -> Any:
        await asyncio.sleep(0)
        if action.what in ("waits", "cancelled"):
            return Shown(value=getattr(type(self), action.what))
        if action.what == "wait":
            type(self).waits = True
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                type(self).cancelled = True
                raise
        return super().step(action)


class LastingIsolated(Isolated):
    """Holds a step until another session of its process releases it, and notes when it ends and when it is closed."""

    noted: ClassVar[list[str]] = []
    released: ClassVar[asyncio.Event | None] = None

    async def step(self, action: Do) -> Any:
        released = type(self).released = type(self).released or asyncio.Event()
        match action.what:
            case "last":
                self.noted.append("begins")
                await released.wait()
                self.noted.append("ends")
            case "release":
                released.set()
        return Shown(value=list(self.noted))

    def close(self) -> None:
        self.noted.append("close")


class TracedIsolated(Isolated):
    """Shows whether spans are made in its step, and the span that they are below."""

    def step(self, action: Do) -> Any:
        from opentelemetry.trace import get_current_span

        above = get_current_span().get_span_context()
        return Shown(value=[is_on(), f"{above.trace_id:032x}", f"{above.span_id:016x}"])


class InlineTracedIsolated(TracedIsolated):
    """Does so on its process's loop."""

    BLOCKING = False


class AsyncTracedIsolated(TracedIsolated):
    """Does so in a coroutine."""

    async def step(self, action: Do) -> Any:
        await asyncio.sleep(0)
        return super().step(action)


class SingleThreadIsolated(Isolated):
    """Every instance of a process in one thread."""

    REQUIRES_SINGLE_THREAD_EXECUTOR = True


class DeadOnArrival(Isolated):
    """Takes its process down as it is made."""

    def __init__(self) -> None:
        os._exit(9)


class Alone(Isolated):
    """Does not support concurrent sessions."""

    SUPPORTS_CONCURRENT_SESSIONS = False


def make_isolated():  # type: ignore[no-untyped-def]  # as many do
    return Isolated("from a function")


def make_alone():  # type: ignore[no-untyped-def]
    return Alone()


def make_nothing() -> object:
    return object()
