"""Small environments that the tests serve."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pydantic import BaseModel

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.exceptions import IllegalActionError

GOAL = 10


class Add(Action):
    """Add to the total: 0 makes the environment fail, and its rules refuse what is below."""

    amount: int


class Total(Observation):
    """The total so far."""

    total: int


class Counter:
    """The game behind all counting environments: count up to ten."""

    def __init__(self) -> None:
        self.total = 0
        self.state = State()

    def begin(self, episode_id: str | None = None, seed: int | None = None) -> Total:
        self.total = 0
        self.state = State(episode_id=episode_id)
        return Total(total=0, metadata={} if seed is None else {"seed": seed})

    def add(self, action: Add) -> Total:
        if action.amount < 0:
            raise IllegalActionError(f"Expected a positive amount, got {action.amount}.")
        if action.amount == 0:
            raise ValueError("kaboom")
        self.total += action.amount
        self.state.step_count += 1
        return Total(total=self.total, reward=action.amount, done=self.total >= GOAL)


class CounterEnvironment(Environment[Add, Total, State]):
    """Counts inline, on the event loop; it never calls ``super().__init__()``."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def __init__(self) -> None:
        self._counter = Counter()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        return self._counter.begin(episode_id, seed)

    def step(self, action: Add) -> Total:
        return self._counter.add(action)

    @property
    def state(self) -> State:
        return self._counter.state


class ThreadedCounterEnvironment(CounterEnvironment):
    """Counts in a thread of its own."""

    BLOCKING = True


class AsyncCounterEnvironment(Environment[Add, Total, State]):
    """Counts in coroutines."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def __init__(self) -> None:
        super().__init__()
        self._counter = Counter()

    async def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        await asyncio.sleep(0)
        return self._counter.begin(episode_id, seed)

    async def step(self, action: Add) -> Total:
        await asyncio.sleep(0)
        return self._counter.add(action)

    @property
    def state(self) -> State:
        return self._counter.state


class LaterEnvironment(CounterEnvironment):
    """Says that it never blocks, and returns something to await from its plain methods."""

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Any:
        return self._later(partial(self._counter.begin, episode_id, seed))

    def step(self, action: Add) -> Any:
        return self._later(partial(self._counter.add, action))

    async def _later(self, call: Callable[[], Total]) -> Total:
        await asyncio.sleep(0)
        return call()


class SingleSessionEnvironment(CounterEnvironment):
    """Does not support concurrent sessions."""

    SUPPORTS_CONCURRENT_SESSIONS = False


PLACES = {
    "inline": CounterEnvironment,
    "thread": ThreadedCounterEnvironment,
    "async": AsyncCounterEnvironment,
    "later": LaterEnvironment,
}
"""The same environment in each of the places where its calls may run."""


class Gate:
    """Lets a test hold an environment's calls, and learn when one has begun and how it was used."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()
        self.calls: list[str] = []
        self.threads: dict[str, str] = {}

    def note(self, call: str) -> None:
        self.calls.append(call)
        self.threads[call] = threading.current_thread().name

    def pass_through(self) -> None:
        self.entered.release()
        assert self.opened.wait(60), "the test never opened the gate"

    def wait_until_entered(self) -> None:
        assert self.entered.acquire(timeout=60), "no call reached the gate"

    @contextmanager
    def open_afterwards(self) -> Iterator["Gate"]:
        """Let every held call go on when the test ends, however it ends."""
        try:
            yield self
        finally:
            self.opened.set()


class GatedEnvironment(CounterEnvironment):
    """Counts in a thread; adding 9 waits at the gate."""

    BLOCKING = True

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate
        gate.note("make")

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        self.gate.note("reset")
        if episode_id == "held":
            self.gate.pass_through()
        return super().reset(seed, episode_id)

    def step(self, action: Add) -> Total:
        self.gate.note("step")
        if action.amount == 9:
            self.gate.pass_through()
        return super().step(action)

    @property
    def state(self) -> State:
        self.gate.note("state")
        return self._counter.state

    def close(self) -> None:
        self.gate.note("close")


class InlineGatedEnvironment(GatedEnvironment):
    """The same on the event loop, for tests that only ask where calls run."""

    BLOCKING = False


class HangingAsyncEnvironment(AsyncCounterEnvironment):
    """Counts in coroutines; adding 9 never ends, nor does to begin an episode that is called held."""

    async def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        if episode_id == "held":
            await asyncio.Event().wait()
        return await super().reset(seed, episode_id)

    async def step(self, action: Add) -> Total:
        if action.amount == 9:
            await asyncio.Event().wait()
        return await super().step(action)


class StubbornEnvironment(AsyncCounterEnvironment):
    """Adding 9 ends only when the gate opens, cancelled or not, and then as the test says."""

    def __init__(self, gate: Gate, end: Callable[[], Any]) -> None:
        super().__init__()
        self.gate = gate
        self.end = end

    async def step(self, action: Add) -> Any:
        self.gate.note("step")
        if action.amount != 9:
            return await super().step(action)
        self.gate.entered.release()
        while not self.gate.opened.is_set():
            try:
                await asyncio.sleep(0.002)
            except asyncio.CancelledError:
                self.gate.note("cancelled")
        return self.end()


class Do(Action):
    """Which mischief to do."""

    what: str


class Shown(Observation):
    """Anything at all."""

    value: Any = None


Mischief = Callable[[], Any]


class MischievousEnvironment(Environment[Do, Shown, State]):
    """Does in ``step`` whatever its table says, in the place that its class says."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True

    def __init__(self, table: dict[str, Mischief]) -> None:
        self._table = table

    def reset(self) -> Shown:
        return Shown()

    def step(self, action: Do) -> Any:
        return self._table[action.what]() if action.what in self._table else Shown(value=action.what)

    @property
    def state(self) -> State:
        return State()


class InlineMischievousEnvironment(MischievousEnvironment):
    """Does it on the event loop."""

    BLOCKING = False


class AsyncMischievousEnvironment(MischievousEnvironment):
    """Does it in a coroutine."""

    async def step(self, action: Do) -> Any:
        await asyncio.sleep(0)
        return super().step(action)


class PlainTotal(BaseModel):
    """An observation that inherits from nothing of OpenEnv."""

    total: int


class PlainAdd(BaseModel):
    """An action that inherits from nothing of OpenEnv."""

    amount: int
