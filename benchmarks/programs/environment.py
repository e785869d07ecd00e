"""The environments that are served by both packages, made of names that both have."""

import asyncio
import time

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

SLEEP_S = 0.05
"""What a step of the sleeping environment takes."""

LONG_STEP_S = 1.0
"""What a step of the waiting environment takes."""

BUSY_S = 200e-6
"""What a step of the busy environment takes of a core."""


class EchoAction(Action):
    """A message."""

    message: str


class EchoObservation(Observation):
    """The message, back again."""

    text: str = ""


class EchoEnvironment(Environment[EchoAction, EchoObservation, State]):
    """Sends each message back; a tenth of its length is the reward. A step costs next to nothing."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._episode_id: str | None = None
        self._steps = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> EchoObservation:
        """Start an episode."""
        self._episode_id, self._steps = episode_id, 0
        return EchoObservation(text="ready", reward=0.0)

    def step(self, action: EchoAction) -> EchoObservation:
        """Echo the message."""
        self._steps += 1
        return EchoObservation(text=action.message, reward=0.1 * len(action.message))

    @property
    def state(self) -> State:
        """The steps so far."""
        return State(episode_id=self._episode_id, step_count=self._steps)


class NonBlockingEchoEnvironment(EchoEnvironment):
    """The same, declared to never block; the public package has no such notion and takes no notice."""

    BLOCKING = False


class SleepingEchoEnvironment(EchoEnvironment):
    """The same, whose step waits as one does that asks another machine."""

    def step(self, action: EchoAction) -> EchoObservation:
        """Wait, then echo the message."""
        time.sleep(SLEEP_S)
        return super().step(action)


class WaitingEchoEnvironment(Environment[EchoAction, EchoObservation, State]):
    """A coroutine that waits for a second, as one does that drives something slow."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    async def reset(self, seed: int | None = None, episode_id: str | None = None) -> EchoObservation:
        """Start an episode."""
        return EchoObservation(text="ready", reward=0.0)

    async def step(self, action: EchoAction) -> EchoObservation:
        """Wait, then echo the message."""
        await asyncio.sleep(LONG_STEP_S)
        return EchoObservation(text=action.message, reward=0.1 * len(action.message))

    @property
    def state(self) -> State:
        """Nothing is counted."""
        return State()


class BusyEchoEnvironment(NonBlockingEchoEnvironment):
    """The same, whose step computes."""

    def step(self, action: EchoAction) -> EchoObservation:
        """Use the processor, then echo the message."""
        # Time on the processor, not on the wall: whatever else this machine does, a step costs the same.
        end = time.thread_time() + BUSY_S
        while time.thread_time() < end:
            pass
        return super().step(action)


ENVIRONMENTS: dict[str, type[Environment[EchoAction, EchoObservation, State]]] = {
    "threaded": EchoEnvironment,
    "non-blocking": NonBlockingEchoEnvironment,
    "sleeping": SleepingEchoEnvironment,
    "busy": BusyEchoEnvironment,
    "waiting": WaitingEchoEnvironment,
}
"""What the servers call them."""
