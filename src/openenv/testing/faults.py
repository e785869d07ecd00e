"""Faults of environments: a share of the episodes fails, in ways that verifiers, judges and machines fail."""

import math
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from openenv.core.env_server.execution.introspection import environment_method
from openenv.core.env_server.interfaces import Environment
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentFailedError,
    FailureKind,
    SandboxError,
    TaskNotFoundError,
    VerdictError,
)
from openenv.core.wire.results import outcome_of

__all__ = ["FAULTS", "Faults", "Strikes", "with_faults"]

EnvT = TypeVar("EnvT", bound=Environment[Any, Any, Any])

_IN_RESET = ("reset_raises", "reset_refused")
# They harm more than an episode: the first ends the server's process unless each environment has a process.
_ON_REQUEST = ("exit", "hang")

FAULTS: Mapping[str, FailureKind] = MappingProxyType(
    {
        "raises": FailureKind.ENVIRONMENT,
        "reset_raises": FailureKind.RESET,
        "reset_refused": FailureKind.TASK_REFUSED,
        "no_reward": FailureKind.NO_REWARD,
        "nan_reward": FailureKind.INVALID_REWARD,
        "infinite_reward": FailureKind.INVALID_REWARD,
        "no_observation": FailureKind.ENVIRONMENT,
        "verifier_killed": FailureKind.PROGRAM,
        "verifier_slow": FailureKind.TIMEOUT,
        "judge_garbage": FailureKind.JUDGE,
        "sandbox_gone": FailureKind.SANDBOX,
        "disk_full": FailureKind.DISK_FULL,
        "memory": FailureKind.MEMORY,
        "database_gone": FailureKind.ENVIRONMENT,
        "hang": FailureKind.TIMEOUT,
        "exit": FailureKind.PROCESS_ENDED,
    }
)
"""Names of the faults, each with the kind of failure that it has to be counted as."""


@dataclass(frozen=True)
class Faults:
    """Share of the episodes of an environment that fails, and the faults that it fails by.

    Attributes:
        kinds: Names of faults in `FAULTS`, which come in turn. By default all but ``hang``, in which a step takes
            ``hang_s``, and ``exit``, which ends the environment's process: for ``isolation="process"``.
        share: Share of the episodes that are struck, from 0 to 1.
        seed: Seed of the draws; the n-th episode of a class has the same fault each time.
        within: Steps within which a fault comes; an episode that ends before is struck at its end.
        hang_s: Seconds that a step with the fault ``hang`` takes.

    Raises:
        ConfigurationError: There is no such fault, or a number is out of its range.
    """

    kinds: tuple[str, ...] = tuple(name for name in FAULTS if name not in _ON_REQUEST)
    share: float = 0.3
    seed: int = 0
    within: int = 4
    hang_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what there is none of."""
        unknown = [kind for kind in self.kinds if kind not in FAULTS]
        if unknown or not self.kinds:
            raise ConfigurationError(f"Expected faults among {', '.join(FAULTS)}, got {unknown or 'none'}.")
        if not 0 <= self.share <= 1 or self.within < 1:
            raise ConfigurationError(
                f"Expected a share from 0 to 1 and at least 1 step, got share={self.share} and within={self.within}."
            )


@dataclass
class Strikes:
    """Episodes that were begun, and the faults that have struck; threads may share it.

    Attributes:
        faults: The share of the episodes that is struck, and by what.
        episodes: Number of the episodes that were begun.
        counts: Number of the faults that have struck, by name.
    """

    faults: Faults
    episodes: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Prepare the draws."""
        self._random = Random(self.faults.seed)  # noqa: S311  # repeatable is what is wanted
        self._drawn = 0
        self._lock = threading.Lock()

    def kinds(self) -> dict[str, int]:
        """Return the number of failures that have to be counted, by kind."""
        with self._lock:
            kinds = Counter[str]()
            for name, count in self.counts.items():
                kinds[FAULTS[name].value] += count
            return dict(kinds)

    def draw(self) -> "_Strike | None":
        """Return the fault of the next episode; ``None`` for an episode that is not struck."""
        with self._lock:
            self.episodes += 1
            is_struck = self._random.random() < self.faults.share
            step = self._random.randint(1, self.faults.within)
            if not is_struck:
                return None
            self._drawn += 1
            return _Strike(self, self.faults.kinds[(self._drawn - 1) % len(self.faults.kinds)], step)

    def note(self, name: str) -> None:
        """Count a fault that strikes now."""
        with self._lock:
            self.counts[name] += 1


class _Strike:
    """Fault of an episode, which comes at a step."""

    def __init__(self, strikes: Strikes, name: str, step: int) -> None:
        self._strikes = strikes
        self._name = name
        self._step = step
        # Steps of the episode so far.
        self._steps = 0

    def at_reset(self) -> None:
        """Strike, where the fault is one of a reset."""
        if self._name in _IN_RESET:
            self._strikes.note(self._name)
            _RAISING[self._name]()

    def at_step(self, returned: Any) -> Any:
        """Strike, where the step has come or the episode ends; else return what the step returned."""
        self._steps += 1
        if self._name in _IN_RESET or (self._steps < self._step and not outcome_of(returned).done):
            return returned
        self._strikes.note(self._name)
        self._step = 2**62  # it strikes once
        if self._name == "hang":
            time.sleep(self._strikes.faults.hang_s)
            return returned
        if self._name in _RETURNED:
            return _RETURNED[self._name](returned)
        _RAISING[self._name]()
        return returned


def with_faults(environment: type[EnvT] | EnvT, faults: Faults = Faults()) -> Any:  # it can't be changed
    """Return an environment of which a share of the episodes fails.

    Args:
        environment: The class, of which a subclass is made, or an instance, which becomes one of that.
        faults: The share of the episodes that fails, and by what.

    Returns:
        The class or the instance; ``strikes`` has what was struck, a `Strikes`.

    Example::

        Struck = with_faults(CatchEnvironment, Faults(share=0.3, seed=1))
        app = create_app(Struck, CatchAction, CatchObservation, max_concurrent_envs=64)
        ...
        assert metrics["episode/failures/judge"] == Struck.strikes.kinds()["judge"]
    """
    if isinstance(environment, type):
        return _struck_class(environment, Strikes(faults))
    environment.__class__ = _struck_class(type(environment), Strikes(faults))
    return environment


def _struck_class(cls: type[EnvT], strikes: Strikes) -> type[EnvT]:
    reset, step = (environment_method(cls, name) for name in ("reset", "step"))
    members: dict[str, Any] = {
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "strikes": strikes,
        "_strike": None,
        reset.name: _struck_reset(getattr(cls, reset.name), awaited=reset.awaited),
        step.name: _struck_step(getattr(cls, step.name), awaited=step.awaited),
    }
    return cast("type[EnvT]", type(cls.__name__, (cls,), members))


def _struck_reset(reset: Callable[..., Any], *, awaited: bool) -> Callable[..., Any]:
    """Return the method that draws the fault of an episode before its reset."""

    @wraps(reset)
    def struck(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._strike = self.strikes.draw()
        if self._strike is not None:
            self._strike.at_reset()
        return reset(self, *args, **kwargs)

    @wraps(reset)
    async def struck_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await struck(self, *args, **kwargs)

    return struck_async if awaited else struck


def _struck_step(step: Callable[..., Any], *, awaited: bool) -> Callable[..., Any]:
    """Return the method that does a step and then has the fault strike, if it is due."""

    @wraps(step)
    def struck(self: Any, *args: Any, **kwargs: Any) -> Any:
        returned = step(self, *args, **kwargs)
        return returned if self._strike is None else self._strike.at_step(returned)

    @wraps(step)
    async def struck_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        returned = await step(self, *args, **kwargs)
        return returned if self._strike is None else self._strike.at_step(returned)

    return struck_async if awaited else struck


def _ended(returned: Any, reward: float | None) -> Any:
    """Return a step's value with the end of the episode and another reward."""
    if isinstance(returned, tuple):
        return returned[0], reward, True
    if isinstance(returned, BaseModel):
        return returned.model_copy(update={"reward": reward, "done": True})
    raise EnvironmentFailedError(f"Expected an observation or a tuple to change the reward of, got {returned!r:.100}.")


def _without_reward(returned: Any) -> Any:
    return _ended(returned, None)


def _with_nan(returned: Any) -> Any:
    return _ended(returned, math.nan)


def _with_infinity(returned: Any) -> Any:
    return _ended(returned, math.inf)


def _without_observation(returned: Any) -> Any:
    return object()


def _raise() -> None:
    raise RuntimeError("a fault on purpose")


def _refuse_task() -> None:
    raise TaskNotFoundError("There is no such task: a fault on purpose.")


def _kill_verifier() -> None:
    subprocess.run(["/bin/sh", "-c", "kill -9 $$"], check=True)


def _wait_for_verifier() -> None:
    subprocess.run(["/bin/sh", "-c", "exec sleep 60"], check=True, timeout=0.01)


def _read_verdict() -> None:
    raise VerdictError("Expected an object of JSON with a score.", "As an AI, I love this answer!!")


def _lose_sandbox() -> None:
    raise SandboxError("The sandbox has ended: a fault on purpose.")


def _fill_disk() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"results")


def _use_up_memory() -> None:
    raise MemoryError


def _connect_to_database() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # it does not listen, so that nothing does at this port
        socket.create_connection(unheard.getsockname(), timeout=1.0).close()


def _exit() -> None:
    os._exit(3)


_RETURNED: Mapping[str, Callable[[Any], Any]] = {
    "no_reward": _without_reward,
    "nan_reward": _with_nan,
    "infinite_reward": _with_infinity,
    "no_observation": _without_observation,
}
_RAISING: Mapping[str, Callable[[], None]] = {
    "raises": _raise,
    "reset_raises": _raise,
    "reset_refused": _refuse_task,
    "verifier_killed": _kill_verifier,
    "verifier_slow": _wait_for_verifier,
    "judge_garbage": _read_verdict,
    "sandbox_gone": _lose_sandbox,
    "disk_full": _fill_disk,
    "memory": _use_up_memory,
    "database_gone": _connect_to_database,
    "exit": _exit,
}
