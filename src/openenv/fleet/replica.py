"""Server of a fleet, as the fleet sees it."""

import asyncio
import logging
import os
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from openenv.core.env_server.operations.routes import Report
from openenv.core.exceptions import OpenEnvError, ProviderError
from openenv.fleet.placement import Load
from openenv.fleet.plan import ServerPlan
from openenv.fleet.replica_server import CALLS_AT_ONCE, ReplicaServer, StartedReplica
from openenv.fleet.status import Phase, ReplicaStatus

logger = logging.getLogger(__name__)

# Clients that were sent to a server, and have no session after so long, will not come any more.
_ON_THEIR_WAY_S = 8.0
# Seconds that a server may need for a report, and to end.
_ANSWER_TIMEOUT_S = 2.0
# A server that has not reported its load for so long hangs, or nearly so, and gets no other request.
_SILENT_S = 3.0
_END_TIMEOUT_S = 11.0


class Replica:
    """Server of a fleet.

    Attributes:
        number: Its number.
        plan: Its settings.
        phase: Its phase.
        load: Its load at its last report.
        requested_at: Time of the request for it, by the monotonic clock.
        started: Its address and process; ``None`` before it serves.
        successor: The replica that replaces it, to which its clients are sent.
    """

    def __init__(self, plan: ServerPlan, number: int) -> None:
        self.number = number
        self.plan = plan
        self.phase = Phase.STARTING
        self.load = Load(0, 0)
        self.requested_at = 0.0
        self.started: StartedReplica | None = None
        self.successor: Replica | None = None
        self._actor: Any = None
        # Not the process's number, which another process may have by the time of the kill.
        self._process: int | None = None
        self._granted: deque[tuple[float, int]] = deque()
        self._opened = 0

    def __str__(self) -> str:
        location = "" if self.started is None else f" (process {self.started.pid} at {self.started.node})"
        return f"replica {self.number}{location}"

    @property
    def expected_load(self) -> Load:
        """Load once all clients have come that were sent to it."""
        return Load(self.load.used + sum(count for _, count in self._granted), self.load.capacity)

    def grant(self, count: int) -> None:
        """Count slots for clients that are on their way."""
        self._granted.append((time.monotonic(), count))

    def status(self) -> ReplicaStatus:
        """Describe it."""
        started = self.started
        return ReplicaStatus(
            number=self.number,
            phase=self.phase,
            address="" if started is None else f"{started.host}:{started.port}",
            sessions=self.load.used,
            capacity=self.load.capacity,
            pid=0 if started is None else started.pid,
            node="" if started is None else started.node,
        )

    async def start(self, timeout_s: float) -> None:
        """Have Ray choose a machine for it and start it there.

        Raises:
            ProviderError: No machine has its resources, or it could not start.
        """
        try:
            async with asyncio.timeout(timeout_s):
                self.started = await self._begin().start.remote()
        except TimeoutError as error:
            raise ProviderError(f"{self} was not ready within {timeout_s:g} s.") from error
        except RayTaskError as error:
            cause = error.cause if isinstance(error.cause, OpenEnvError) else error
            raise ProviderError(f"{self} could not start: {cause}") from error
        except RayError as error:
            raise ProviderError(f"{self} ended before it was ready: {error}") from error
        assert self.started is not None
        self._process = _descriptor_of(self.started)
        self.load = Load(0, self.started.capacity)
        self.requested_at = time.monotonic()
        self.phase = Phase.SERVING

    async def look(self, timeout_s: float) -> bool:
        """Request its load; return ``False`` where its server has ended.

        Raises:
            RayError: Its process has ended.
            TimeoutError: It did not answer in time: it hangs.
        """
        requested_at = time.monotonic()
        async with asyncio.timeout(timeout_s):
            occupancy = await self._actor.occupancy.remote()
        if occupancy is None:
            return False
        self._note_arrivals(occupancy.opened - self._opened)
        self.load, self._opened = occupancy
        self.requested_at = requested_at
        return True

    async def answer(self, question: Report) -> Report | None:
        """Request a report; ``None`` where it does not come in time, or none has come for a while."""
        if self._actor is None or time.monotonic() - self.requested_at > _SILENT_S:
            return None
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                answer: Report = await self._actor.answer.remote(question)
        except (TimeoutError, RayError):
            return None
        return answer

    async def drain(self) -> None:
        """Have it take no new sessions and end once the episodes under way have ended."""
        self.phase = Phase.DRAINING
        with suppress(RayError):
            await self._actor.drain.remote()

    async def end(self) -> None:
        """End it in order; by force if that takes too long."""
        self.phase = Phase.ENDED
        if self._actor is not None and self.started is not None:
            with suppress(TimeoutError, RayError):
                async with asyncio.timeout(_END_TIMEOUT_S):
                    await self._actor.end.remote()
                    self.release()
        self.kill()

    def kill(self) -> None:
        """End it at once, whatever it does: a stopped process too."""
        self.phase = Phase.ENDED
        if self._actor is None:
            return
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):  # it has ended, or is left to Ray, whose process it is
                signal.pidfd_send_signal(self._process, signal.SIGKILL)  # Ray would first wait for a process that hangs
        self.release()

    def release(self) -> None:
        """Have Ray end the process, whose server has ended."""
        if ray.is_initialized():  # else its processes have ended, and a request to it would start another one
            ray.kill(self._actor)
        self._actor = None
        if self._process is not None:
            os.close(self._process)
            self._process = None

    def _note_arrivals(self, count: int) -> None:
        """Forget grants: those of clients that have come since, and those that are too old."""
        while self._granted and (count > 0 or self._granted[0][0] < time.monotonic() - _ON_THEIR_WAY_S):
            at, granted = self._granted.popleft()
            if count < granted and at >= time.monotonic() - _ON_THEIR_WAY_S:
                self._granted.appendleft((at, granted - count))
                return
            count -= granted

    def _begin(self) -> Any:
        if not ray.is_initialized():  # a request for an actor would start another one
            raise ProviderError(f"{self} could not start: Ray has ended.")
        resources = self.plan.resources
        settings: dict[str, Any] = {
            "num_cpus": resources.cpus or 0,
            "num_gpus": resources.gpus,
            "memory": resources.memory_bytes,
            "runtime_env": self.plan.runtime_env,
        }
        self._actor = (
            ray.remote(ReplicaServer)
            .options(max_concurrency=CALLS_AT_ONCE, max_restarts=0, scheduling_strategy="SPREAD", **settings)
            .remote(self.plan, self.number)
        )
        return self._actor


def _descriptor_of(started: StartedReplica) -> int | None:
    """Open a descriptor of a server's process; ``None`` where it is on another machine, has ended, or there is none."""
    here: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    if started.node != here or sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(started.pid)
    except (ProcessLookupError, PermissionError):
        return None
