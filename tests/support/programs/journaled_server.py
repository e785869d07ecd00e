"""Serve walks with a journal until killed; prints the port first, then a line for each step that waits.

Arguments: the environment's name in ``WALKS``, the journal and, if there is to be more than one, the number of workers;
or ``process`` for isolation; or ``at-most-BYTES`` for how long its files may become.
"""

import os
import random
import resource
import sys
import time
from functools import partial
from typing import Any

from openenv.core.env_server.app import create_fastapi_app, listen, run_app, run_workers
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Stride(Action):
    """Go on; with ``how``, to ``hold`` takes a minute, to ``dawdle`` less, to ``fall`` fails, to ``vanish`` exits."""

    length: int
    how: str = ""
    luggage: Any = None


class Place(Observation):
    at: float
    luggage: Any = None


class Walk(Environment[Stride, Place, State]):
    """Where it gets to is random, but the same for the same seed."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def __init__(self) -> None:
        super().__init__()
        self._random = random.Random()
        self._at = 0.0
        self._steps = 0

    def reset(self, seed: int | None = None) -> Place:
        if seed is not None:
            self._random.seed(seed)
        self._at = self._random.random()
        self._steps = 0
        return Place(at=self._at)

    def step(self, action: Stride) -> Place:
        if action.how == "hold":
            os.write(sys.stdout.fileno(), b"held\n")
            time.sleep(60)
        if action.how == "dawdle":
            time.sleep(0.3)
        if action.how == "vanish":
            os._exit(3)
        if action.how == "fall":
            raise ValueError("it fell")
        self._at += action.length * self._random.random()
        self._steps += 1
        if isinstance(action.luggage, dict):  # what it was sent is its own to change
            action.luggage["carried"] = True
        return Place(at=self._at, luggage=action.luggage, reward=1.0, done=self._steps >= 200)

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


class ThreadedWalk(Walk):
    """Walks in a thread."""

    BLOCKING = True


class MoodyWalk(Walk):
    """Does not do the same again from the same seed."""

    def reset(self, seed: int | None = None) -> Place:
        return super().reset()


class MappedWalk(MoodyWalk):
    """Does not do the same again either, but can be put back to where it was."""

    def snapshot(self) -> Any:
        return {"at": self._at, "steps": self._steps, "random": self._random.getstate()}

    def restore(self, snapshot: Any) -> None:
        self._at, self._steps = snapshot["at"], snapshot["steps"]
        version, numbers, gauss = snapshot["random"]
        self._random.setstate((version, tuple(numbers), gauss))


class SlowlyMappedWalk(MappedWalk):
    """The same, in more time than it takes to think about it."""

    def snapshot(self) -> Any:
        time.sleep(1)
        return super().snapshot()


class StumblingWalk(Walk):
    """Its reset may fail when it has drawn the seed and nothing else."""

    def reset(self, seed: int | None = None, stumbles: bool = False) -> Place:
        if stumbles:
            self._random.seed(seed)
            raise ValueError("it stumbled")
        return super().reset(seed)


class ThreadedMappedWalk(MappedWalk):
    """The same in a thread, with coroutines for hooks and bytes for a snapshot."""

    BLOCKING = True

    async def snapshot(self) -> bytes:
        return repr(super().snapshot()).encode()

    async def restore(self, snapshot: bytes) -> None:  # type: ignore[override]  # as the docstring of ours allows
        super().restore(eval(snapshot))  # written above


class LockedWalk(Walk):
    """Holds what can't be copied, and takes no snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = open(os.devnull)  # noqa: PTH123, SIM115

    def close(self) -> None:
        self._lock.close()


class LockedMoodyWalk(LockedWalk):
    """And does not do the same again."""

    def reset(self, seed: int | None = None) -> Place:
        return super().reset()


WALKS = {
    walk.__name__: walk
    for walk in (Walk, ThreadedWalk, MoodyWalk, MappedWalk, ThreadedMappedWalk, LockedWalk, LockedMoodyWalk)
}


def make_app(name: str, journal: str, **settings: Any) -> Any:
    return create_fastapi_app(WALKS[name], Stride, Place, max_concurrent_envs=1100, journal=journal, **settings)


def main(name: str, journal: str, how: str = "1") -> None:
    if how.startswith("at-most-"):
        limit = int(how.removeprefix("at-most-"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        how = "1"
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        if how == "process":
            print(port, flush=True)  # noqa: T201  # how the test learns the port
            run_app(make_app(name, journal, isolation="process"), listener=listener)
        elif how == "1":
            print(port, flush=True)  # noqa: T201
            run_app(make_app(name, journal), listener=listener)
        else:
            make = partial(make_app, name, journal)
            run_workers(make, int(how), listener, on_ready=lambda _: print(port, flush=True))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
