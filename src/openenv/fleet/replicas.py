"""Servers of a fleet: started, watched, replaced, and removed."""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from ray.exceptions import RayError

from openenv.core.env_server.operations.routes import Report
from openenv.core.exceptions import ProviderError
from openenv.core.wire.names import worker_of
from openenv.fleet.background import BackgroundTasks
from openenv.fleet.placement import granted, least_loaded
from openenv.fleet.plan import ServerPlan
from openenv.fleet.replica import Replica
from openenv.fleet.status import Phase

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.5
# A replica that replaces another may fail to start; then it is tried again, each time a little later.
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0
# Replicas that have ended and are remembered for their successors.
_MAX_REMEMBERED = 10_000
_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_TAKES_CLIENTS_BACK = (Phase.SERVING, Phase.RETIRING, Phase.DRAINING)


class Placed(NamedTuple):
    """Server that a client is sent to.

    Attributes:
        replica: The server.
        sessions: Number of sessions to open there; 0 where no server has a slot, or none is wanted.
    """

    replica: Replica
    sessions: int


class Replicas:
    """The servers of a fleet. All of its methods belong to one event loop.

    Attributes:
        plan: Settings of replicas that are started from now on.
        refused: Sessions that found no slot since this was last set to 0.
        replaced: Number of servers that were replaced because they had died or hung.
    """

    def __init__(
        self, plan: ServerPlan, *, start_timeout_s: float, hang_s: float, free_resources: Callable[[], str]
    ) -> None:
        self.plan = plan
        self.refused = 0
        self.replaced = 0
        self._start_timeout_s = start_timeout_s
        self._hang_s = hang_s
        self._free_resources = free_resources
        self._numbers = count(1)
        self._replicas: dict[int, Replica] = {}
        self._ended: OrderedDict[int, Replica] = OrderedDict()
        self._tasks = BackgroundTasks()
        self._changed = asyncio.Event()
        self._replacements: dict[Replica, asyncio.Task[None]] = {}
        self._closing = False

    def __iter__(self) -> Iterator[Replica]:
        """Iterate over those that have not ended, in the order of their numbers."""
        return iter(list(self._replicas.values()))

    def in_phase(self, *phases: Phase) -> list[Replica]:
        """List the replicas in one of some phases."""
        return [replica for replica in self if replica.phase in phases]

    @property
    def count(self) -> int:
        """Number of replicas that accept new sessions, or will once they have replaced one that has died."""
        return len(self.in_phase(Phase.SERVING)) + len(self._replacements)

    async def start(self) -> Replica:
        """Start a replica.

        Raises:
            ProviderError: No machine has its resources, or it could not start.
        """
        replica = self._new()
        await self._start(replica)
        return replica

    async def retire(self, replica: Replica, *, at_once: bool) -> None:
        """Remove a replica, at once or, without ``at_once``, only once it holds no session."""
        if replica.phase is not Phase.SERVING:
            return
        replica.phase = Phase.RETIRING
        while not (at_once or self._closing) and replica.load.used and replica.phase is Phase.RETIRING:
            await self._change(_LOOK_EVERY_S)
        if replica.phase is Phase.RETIRING:
            await replica.drain()
        while replica.number in self._replicas and replica.phase is Phase.DRAINING:
            await self._change(_LOOK_EVERY_S)

    def keep_serving(self, limit: int) -> int:
        """Have some replicas serve on that were to end once they hold no session; return their number."""
        back = [replica for replica in self.in_phase(Phase.RETIRING) if replica.plan is self.plan][:limit]
        for replica in back:
            replica.phase = Phase.SERVING
        return len(back)

    async def stop_replacing(self, limit: int) -> int:
        """Stop some replacements of replicas that have died; return their number."""
        stopped = {replica: self._replacements.pop(replica) for replica in list(self._replacements)[:limit]}
        for replica, task in stopped.items():
            task.cancel()
            replica.successor = None
        await asyncio.gather(*stopped.values(), return_exceptions=True)
        return len(stopped)

    async def outdated(self) -> list[Replica]:
        """List those that serve and were started by another plan, after those that are being started."""
        while any(replica.plan is not self.plan for replica in self.in_phase(Phase.STARTING)):
            await self._change(_LOOK_EVERY_S)
        return [replica for replica in self.in_phase(Phase.SERVING) if replica.plan is not self.plan]

    async def choose(self, wanted: int, holder: int | None, patience_s: float) -> Placed | None:
        """Choose a server for a client; ``None`` where there is none in time.

        Args:
            wanted: Number of sessions for which it connects; 0 for a client that opens none, which any server answers.
            holder: Number of the replica that held the sessions that continue; ``None`` for new ones.
            patience_s: Seconds to wait for a server that is being started.
        """
        came_at = time.monotonic()
        gives_up_at = came_at + patience_s
        while (placed := self._choose_free(wanted, holder, came_at)) is None and not self._closing:
            remaining_s = gives_up_at - time.monotonic()
            if remaining_s <= 0:
                break
            await self._change(remaining_s)
        return placed or self._choose(wanted, holder)

    async def query(self, question: Report) -> Mapping[str, Report | None]:
        """Request a report of all that serve: their answers by their numbers, ``None`` without one in time."""
        replicas = self.in_phase(*_TAKES_CLIENTS_BACK)
        answers = await asyncio.gather(*(replica.answer(question) for replica in replicas))
        return {str(replica.number): answer for replica, answer in zip(replicas, answers, strict=True)}

    async def drain(self) -> None:
        """Let all episodes that are under way end; no further replica replaces any."""
        self._closing = True
        await asyncio.gather(*(self.retire(replica, at_once=True) for replica in self))
        while self.in_phase(Phase.RETIRING, Phase.DRAINING):
            await self._change(_LOOK_EVERY_S)

    async def close(self) -> None:
        """End all of them."""
        self._closing = True
        self._notify_changed()
        await self._tasks.close()
        await asyncio.gather(*(replica.end() for replica in self))
        self._replicas.clear()

    def _choose_free(self, wanted: int, holder: int | None, came_at: float) -> Placed | None:
        """Choose a server, but not one without a slot as long as there may be one: the loads are a moment old."""
        placed = self._choose(wanted, holder)
        if placed is None or placed.sessions > 0 or holder is not None or wanted == 0:
            return placed
        is_full = all(
            not replica.load.free and replica.requested_at > came_at for replica in self.in_phase(Phase.SERVING)
        )
        return placed if is_full else None

    def _choose(self, wanted: int, holder: int | None) -> Placed | None:
        back = None if holder is None else self._successor(holder)
        if back is not None and back.phase is not Phase.ENDED:
            return Placed(back, 0) if back.phase in _TAKES_CLIENTS_BACK else None
        serving = self.in_phase(Phase.SERVING)
        if not serving:
            return None
        loads = [replica.expected_load for replica in serving]
        chosen = least_loaded(loads)
        # Sessions that come from elsewhere stay together: their client moves with all of them at once.
        sessions = granted(loads, chosen, wanted) if holder is None else min(wanted, loads[chosen].free)
        if holder is None:
            self.refused = max(self.refused, wanted - sum(replica.load.free for replica in serving))
        if sessions:
            serving[chosen].grant(sessions)
        return Placed(serving[chosen], sessions)

    def _successor(self, number: int) -> Replica | None:
        """Return the replica of a number, or its successor; ``None`` where it is not known."""
        replica = self._replicas.get(number) or self._ended.get(number)
        while replica is not None and replica.phase is Phase.ENDED and replica.successor is not None:
            replica = replica.successor
        return replica

    async def _start(self, replica: Replica) -> None:
        if self._closing:
            raise ProviderError("The fleet is about to end, and starts no further server.")
        self._replicas[replica.number] = replica
        try:
            await replica.start(self._start_timeout_s)
        except BaseException as error:
            replica.kill()
            self._forget(replica)
            if isinstance(error.__cause__, TimeoutError):
                raise ProviderError(
                    f"{error} Ray may not have its resources: {self._free_resources()}. Request fewer replicas, or "
                    "less for each."
                ) from error
            raise
        self._tasks.run_lasting(f"the watch over {replica}", partial(self._watch, replica))
        self._notify_changed()

    async def _watch(self, replica: Replica) -> None:
        """Watch a replica until it has ended, and replace it if it was not to end."""
        if replica.number not in self._replicas:  # an earlier watch failed once it had been replaced
            return
        try:
            while await replica.look(self._hang_s):
                self._notify_changed()
                await asyncio.sleep(_LOOK_EVERY_S)
            how = "has ended"
            replica.release()
        except RayError:
            how = "has died"
        except TimeoutError:
            how = f"has not answered for {self._hang_s:g} s"
        was_to_end = replica.phase is not Phase.SERVING or self._closing
        if not was_to_end:
            replica.successor = self._new()
        try:
            replica.kill()
        finally:
            self._forget(replica)
            self._replace_if_needed(replica, how, was_to_end)

    def _replace_if_needed(self, replica: Replica, how: str, was_to_end: bool) -> None:
        if replica.successor is not None and not was_to_end:
            logger.warning("%s %s; replica %d succeeds it", replica, how, replica.successor.number)
            self.replaced += 1
            self._replacements[replica] = self._tasks.run(self._replace(replica))

    async def _replace(self, replica: Replica) -> None:
        """Start the successor of a replica that has died; where that does not work, try again a little later."""
        pause_s = _FIRST_PAUSE_S
        try:
            while not (self._closing or replica.successor is None or await self._started(replica, replica.successor)):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                replica.successor = self._new()
        finally:
            self._replacements.pop(replica, None)

    async def _started(self, replica: Replica, successor: Replica) -> bool:
        try:
            await self._start(successor)
        except (ProviderError, RayError) as error:
            logger.error("%s could not be replaced: %s", replica, error)
            return False
        return True

    def _new(self) -> Replica:
        return Replica(self.plan, next(self._numbers))

    def _forget(self, replica: Replica) -> None:
        self._replicas.pop(replica.number, None)
        self._ended[replica.number] = replica
        if len(self._ended) > _MAX_REMEMBERED:
            self._ended.popitem(last=False)
        self._notify_changed()

    async def _change(self, timeout_s: float) -> None:
        """Wait until something has changed, or some time has passed."""
        changed = self._changed
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            return

    def _notify_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def holder_of(session_id: Any) -> int | None:
    """Return the number of the replica that opened a session; ``None`` for no id of a fleet's session."""
    number = worker_of(session_id) if isinstance(session_id, str) else None
    return int(number) if number is not None and _NUMBER.fullmatch(number) else None
